"""Users of the sandbox."""

import e2b
from cases import case
from sdk import do, fails


@case()
async def commands_run_as_user(world, sandbox):
    assert (await do(sandbox.commands.run("whoami; id -u; echo $HOME $USER"))).stdout == "user\n1000\n/home/user user\n"


@case()
async def commands_run_as_root_when_asked(world, sandbox):
    assert (await do(sandbox.commands.run("whoami; echo $HOME; pwd", user="root"))).stdout == "root\n/root\n/root\n"


@case()
async def an_unknown_user_is_refused_at_once(world, sandbox):
    await fails(e2b.AuthenticationException, lambda: sandbox.commands.run("true", user="nobody-knows"))


@case()
async def files_belong_to_the_user_of_the_call(world, sandbox):
    await do(sandbox.files.write("/tmp/mine", "x"))
    await do(sandbox.files.write("/tmp/roots", "x", user="root"))
    assert (await do(sandbox.commands.run("stat -c %U /tmp/mine /tmp/roots"))).stdout == "user\nroot\n"


@case()
async def the_user_cannot_write_files_of_root(world, sandbox):
    error = await fails(e2b.CommandExitException, lambda: sandbox.commands.run("echo x > /etc/passwd"))
    assert "denied" in error.stderr.lower()


@case()
async def sudo_needs_no_password(world, sandbox):
    result = await do(sandbox.commands.run("sudo -n id -u; sudo whoami; sudo -u user whoami"))
    assert (result.stdout, result.stderr) == ("0\nroot\nuser\n", ""), result


@case()
async def sudo_writes_files_of_root(world, sandbox):
    await do(sandbox.commands.run("echo installed | sudo tee /usr/local/bin/tool >/dev/null"))
    assert (await do(sandbox.commands.run("cat /usr/local/bin/tool; stat -c %U /usr/local/bin/tool"))).stdout == "installed\nroot\n"


@case()
async def the_workspace_belongs_to_the_user(world, sandbox):
    await do(sandbox.files.write("/workspace/a.txt", "x"))
    assert (await do(sandbox.commands.run("touch b.txt; ls; stat -c %U .", cwd="/workspace"))).stdout == "a.txt\nb.txt\nuser\n"


@case()
async def the_host_name_resolves_to_loopback(world, sandbox):
    code = "import socket; print(socket.gethostbyname(socket.gethostname()) == '127.0.0.1')"
    result = await do(sandbox.commands.run(f'python3 -c "{code}"; [ $(cat /etc/hostname) = $(hostname) ] && echo same'))
    assert result.stdout == "True\nsame\n", result


@case()
async def root_changes_the_owner_of_files(world, sandbox):
    await do(sandbox.commands.run("touch /tmp/given && chown user:user /tmp/given", user="root"))
    assert (await do(sandbox.commands.run("stat -c %U /tmp/given && echo x >> /tmp/given"))).stdout == "user\n"
