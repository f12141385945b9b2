"""Who is limited, has used how much and waits how long. Pure: time is an argument, no sockets."""
