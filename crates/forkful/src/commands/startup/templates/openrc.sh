#!/sbin/openrc-run
# Written by `forkful startup`; `forkful unstartup` removes it.
description="Forkful, which keeps Node.js apps up"
supervisor=supervise-daemon
command={program}
command_args="daemon --resurrect"
command_user={user}
retry="TERM/{stop}/KILL/5"
respawn_delay=1
export FORKFUL_HOME={home}
export HOME={user_home}
export PATH={path}

depend() {{
	{after}
}}
