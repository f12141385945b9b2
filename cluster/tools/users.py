"""`users`: who may log in by SCRAM; passwords come from a prompt, a file or stdin, or are made."""

import argparse
import getpass
import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.client.socket_client import SocketClient
from cluster.client.user_requests import Iterations, NewPassword, alter_user, describe_users
from cluster.model.errors import Refused, UserError
from cluster.model.printable import one_line
from cluster.model.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from cluster.model.security import SaslMechanism
from cluster.runtime.installation import shown
from cluster.runtime.text_table import table_text
from cluster.runtime.whole_numbers import integer
from cluster.tools.arguments import UsageError, add_command, add_parser_of, data_dir, stated_servers
from cluster.tools.commands import Command
from cluster.tools.configs.scram import check_name
from cluster.tools.kafka_connection import add_servers, security_of, servers_of
from cluster.tools.missing_rights import right_hint
from cluster.tools.options import warn_of_readers

if TYPE_CHECKING:
    from cluster.tools.arguments import Subparsers

_CLIENT_ID: Final = "milena-users"
_GENERATED_BYTES: Final = 18
_ACTIONS: Final = {
    command.name: command
    for command in (
        Command("add", "users", "add a user with a password"),
        Command("alter", "users", "give a user another password"),
        Command("delete", "users", "remove a user"),
        Command("list", "users", "print the users, and how they can log in"),
    )
}


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `users` and its sub-commands to `subparsers`."""
    parser = add_command(
        subparsers,
        "users",
        "users add alice",
        "users add bob --generate --client-config bob.properties",
        "users delete alice",
        "users list",
    )
    actions = parser.add_subparsers(
        title="sub-commands", metavar="SUB-COMMAND", dest="user_action", required=True
    )
    for name, summary in _ACTIONS.items():
        action = add_parser_of(actions, summary, f"users {name}{' alice' * (name != 'list')}")
        if name == "list":
            action.add_argument("--json", action="store_true", help="one object, for scripts")
        else:
            action.add_argument("name", metavar="NAME", help="the user, without `User:`")
            action.add_argument(
                "--mechanism",
                action="append",
                choices=[mechanism.value for mechanism in MECHANISMS],
                help="only this one; may be repeated (default: both of SCRAM)",
            )
        if name in ("add", "alter"):
            _add_password(action)
        if name in ("alter", "delete"):
            action.add_argument(
                "--force", action="store_true", help="even the user that these commands log in as"
            )
        add_servers(action)


def _add_password(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--password-file",
        metavar="FILE",
        help="a file whose first line is the password (default: a prompt, or stdin's first line)",
    )
    source.add_argument(
        "--generate",
        action="store_true",
        help="generate a password, and print it unless --client-config",
    )
    parser.add_argument(
        "--iterations",
        type=_iterations,
        default=DEFAULT_ITERATIONS,
        metavar="N",
        help=f"iterations of the hash, {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        f" (default: {DEFAULT_ITERATIONS})",
    )
    parser.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="write a file (mode 0600) with which this user's clients, and these commands, connect",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out the sub-command. Returns the exit status. Raises UserError."""
    try:
        if args.user_action == "list":
            return _list(args)
        if args.user_action == "delete":
            return _delete(args)
        return _set(args)
    except Refused as refused:
        raise UserError(f"{refused.reason}{right_hint(refused.code, args)}") from None


def _list(args: argparse.Namespace) -> int:
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        found = describe_users(client)
    if args.json:
        users = [
            {"user": name, "mechanisms": {key.value: count for key, count in ways.items()}}
            for name, ways in sorted(found.items())
        ]
        print(json.dumps(users, indent=2))
    else:
        rows = [(one_line(name), _ways(ways)) for name, ways in sorted(found.items())]
        print(table_text(("USER", "LOGS IN BY"), rows))
    return 0


def _ways(ways: Iterations) -> str:
    return ", ".join(f"{each} ({count} iterations)" for each, count in sorted(ways.items()))


def _set(args: argparse.Namespace) -> int:
    check_name(args.name)
    is_new = args.user_action == "add"
    present = _present(args)
    if is_new and present:
        raise UserError(f"there is a user {args.name} already: use `users alter`")
    if not is_new and not present:
        raise UserError(f"there is no user {args.name}: use `users add`")
    mechanisms = _mechanisms(args, present or dict.fromkeys(MECHANISMS, 0))
    is_own = _is_own(args)
    if is_own and not _is_of_data_dir(args) and not args.force:
        raise UserError(
            f"these commands log in as {args.name} here, with a password that you would have to"
            " change in the file of --command-config: use --force"
        )
    _check_room_for(args.client_config)
    password = _password(args)
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        alter_user(
            client,
            args.name,
            [NewPassword(each, password, args.iterations) for each in mechanisms],
        )
    print(f"Completed {'adding' if is_new else 'updating'} user {one_line(args.name)}.")
    if is_own and _is_of_data_dir(args):
        _renew_own_files(args, password)
    if args.client_config is not None:
        _write_client_config(args, mechanisms[-1], password)
        print(f"How to connect as {one_line(args.name)} is in {shown(args.client_config)}.")
    elif args.generate:
        print(f"Its password is {password}")
    return 0


def _delete(args: argparse.Namespace) -> int:
    present = _present(args)
    if not present:
        raise UserError(f"there is no user {args.name}")
    if _is_own(args) and not args.force:
        raise UserError(
            f"these commands log in as {args.name} and would be locked out: use --force"
        )
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        alter_user(client, args.name, removed=_mechanisms(args, present))
    print(f"Completed removing user {one_line(args.name)}.")
    return 0


def _present(args: argparse.Namespace) -> Iterations:
    """How the user can log in now; empty if there is none."""
    if not args.name:
        raise UsageError("a name cannot be empty")
    with SocketClient.connect(servers_of(args), _CLIENT_ID) as client:
        return describe_users(client, [args.name]).get(args.name, {})


def _mechanisms(args: argparse.Namespace, usual: Iterations) -> list[SaslMechanism]:
    return [SaslMechanism(each) for each in args.mechanism or sorted(usual)]


# -- the user that these commands log in as --------------------------------------------------------


def _is_own(args: argparse.Namespace) -> bool:
    security = security_of(args)
    return security.protocol.has_sasl and security.username == args.name


def _is_of_data_dir(args: argparse.Namespace) -> bool:
    """Whether that user is the one whose password the data directory keeps."""
    return (
        stated_servers(args) is None
        and "sasl.jaas.config" not in dict(args.command_properties)
        and "sasl.username" not in dict(args.command_properties)
        and data_dir(args).tools_properties.exists()
    )


def _renew_own_files(args: argparse.Namespace, password: str) -> None:
    from cluster.datadir.client_files import change_password

    files = data_dir(args)
    try:
        change_password(files, password)
    except OSError as problem:
        raise UserError(
            f"the password is changed, but not in {files.clients}: {problem.strerror}"
        ) from None
    print(f"The files in {shown(files.clients)} have the new password.")


def _check_room_for(path: Path | None) -> None:
    """Raise UserError where a file cannot be written, before a password is set that is nowhere."""
    if path is None:
        return
    if path.is_dir():
        raise UserError(f"cannot write {shown(path)}: it is a directory")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to {shown(path.absolute().parent)}: the user is unchanged")


def _write_client_config(args: argparse.Namespace, mechanism: SaslMechanism, password: str) -> None:
    from cluster.runtime.private_files import write_private

    security = security_of(args)
    servers = ",".join(f"{host}:{port}" for host, port in servers_of(args).addresses)
    lines = {
        "bootstrap.servers": servers,
        "security.protocol": security.protocol.value,
        "sasl.mechanism": mechanism.value,
        "sasl.username": args.name,
        "sasl.password": password,
    }
    path: Path = args.client_config
    if security.ca_pem is not None:
        authorities = path.absolute().with_suffix(".ca.pem")
        lines["ssl.ca.location"] = str(authorities)
    try:
        if security.ca_pem is not None:
            write_private(authorities, security.ca_pem)
        write_private(path, "".join(f"{key}={value}\n" for key, value in lines.items()))
    except OSError as problem:
        raise UserError(f"cannot write {shown(path)}: {problem.strerror}") from None


# -- passwords -------------------------------------------------------------------------------------


def _password(args: argparse.Namespace) -> str:
    """The new password. Raises UserError for an empty one."""
    if args.generate:
        return secrets.token_urlsafe(_GENERATED_BYTES)
    if args.password_file is not None:
        try:
            text = Path(args.password_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
            raise UserError(f"cannot read {args.password_file}: {reason}") from None
        warn_of_readers(Path(args.password_file))
        password = text.partition("\n")[0].rstrip("\r")
    elif sys.stdin.isatty():
        password = _asked_for(f"Password of {one_line(args.name)}: ")
        if password and _asked_for("Once more: ") != password:
            raise UserError("the two passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UserError("a password cannot be empty")
    return password


def _asked_for(prompt: str) -> str:
    """What is typed, unseen; empty at the end of input."""
    try:
        return getpass.getpass(prompt)
    except EOFError:
        print(file=sys.stderr)
        return ""


def _iterations(text: str) -> int:
    count = integer(text)
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        raise argparse.ArgumentTypeError(f"must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return count
