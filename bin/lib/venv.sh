# Sourced by the launchers: finds the project, makes sure .venv holds what etc/requirements asks for.
# The launcher has set `here` to its own folder.
# After the first use this costs comparisons of files: no installer, no network, no Python.

root=$(CDPATH='' cd "$here/.." && pwd -P)
python=$root/.venv/bin/python

# Makes sure the given sets are installed: `core` is etc/requirements/core.txt.
need_installed() {
    missing=
    for wanted_set in "$@"; do
        cmp -s "$root/etc/requirements/$wanted_set.txt" "$root/.venv/.installed-$wanted_set" || missing=yes
    done
    walk=$root/cluster/records/_walk.c
    [ ! -e "$walk" ] || cmp -s "$walk" "$root/.venv/.walk-tried" || missing=yes
    if [ -n "$missing" ] || [ ! -x "$python" ] || [ -e "$root/.venv/.unfinished-core" ]; then
        found=$(find_python) || {
            echo "Milena needs Python 3.11 or newer, and none was found: install python3.11 and try again." >&2
            exit 1
        }
        "$found" "$root/bin/lib/install.py" "$root" "$@" || exit 1
    fi
    unset PYTHONHOME
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
}

find_python() {
    for candidate in python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}
