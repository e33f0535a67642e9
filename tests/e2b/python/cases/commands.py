"""Running commands."""

import e2b
from cases import case
from sdk import TIMEOUTS, do, fails


@case()
async def a_command_says_hello(world, sandbox):
    result = await do(sandbox.commands.run("echo hello"))
    assert (result.stdout, result.stderr, result.exit_code) == ("hello\n", "", 0)


@case()
async def commands_run_in_a_shell(world, sandbox):
    result = await do(sandbox.commands.run("for i in 1 2 3; do printf $i; done | tac && echo; X='a b'; echo \"$X\" | wc -w"))
    assert result.stdout.split() == ["123", "2"], result


@case()
async def a_command_that_fails_raises_its_code(world, sandbox):
    error = await fails(e2b.CommandExitException, lambda: sandbox.commands.run("echo out; echo bad >&2; exit 3"))
    assert (error.exit_code, error.stdout, error.stderr) == (3, "out\n", "bad\n"), error


@case()
async def output_arrives_while_the_command_runs(world, sandbox):
    received = []
    await do(sandbox.commands.run("echo one; echo two >&2; sleep 0.3; echo three", on_stdout=received.append, on_stderr=received.append))
    assert [text.strip() for text in received] == ["one", "two", "three"], received


@case()
async def a_million_bytes_of_output_arrive_complete(world, sandbox):
    result = await do(sandbox.commands.run("head -c 1000000 /dev/zero | tr '\\0' x"))
    assert result.stdout == "x" * 1000000


@case()
async def non_ascii_output_arrives_intact(world, sandbox):
    text = "żółć 漢字 🦀" * 20000
    await do(sandbox.files.write("text", text))
    assert (await do(sandbox.commands.run("cat text"))).stdout == text


@case()
async def a_command_runs_in_the_given_directory(world, sandbox):
    assert (await do(sandbox.commands.run("pwd", cwd="/tmp"))).stdout == "/tmp\n"


@case()
async def commands_start_in_the_home_directory(world, sandbox):
    assert (await do(sandbox.commands.run("pwd; echo ~"))).stdout == "/home/user\n/home/user\n"


@case()
async def a_missing_directory_is_an_argument_error(world, sandbox):
    await fails(e2b.InvalidArgumentException, lambda: sandbox.commands.run("pwd", cwd="/nowhere"), "/nowhere")


@case()
async def variables_of_a_command_do_not_outlive_it(world, sandbox):
    assert (await do(sandbox.commands.run("echo $A", envs={"A": "1"}))).stdout == "1\n"
    assert (await do(sandbox.commands.run("echo $A"))).stdout == "\n"


@case(needs_sandbox=False)
async def variables_of_a_command_override_those_of_the_sandbox(world):
    sandbox = await world.create(envs={"A": "sandbox", "B": "kept"})
    assert (await do(sandbox.commands.run("echo $A $B", envs={"A": "call"}))).stdout == "call kept\n"


@case()
async def the_environment_of_the_host_is_not_passed_on(world, sandbox):
    names = {line.split("=")[0] for line in (await do(sandbox.commands.run("env"))).stdout.splitlines()}
    assert {"PATH", "HOME", "USER", "LOGNAME"} <= names
    assert not [name for name in names if name.startswith(("SANDBAR", "CARGO", "E2B_API"))], names


@case(needs=TIMEOUTS)
async def a_command_that_takes_too_long_times_out(world, sandbox):
    await fails(e2b.TimeoutException, lambda: sandbox.commands.run("sleep 30", timeout=1))


@case(needs=TIMEOUTS)
async def a_command_that_timed_out_is_killed(world, sandbox):
    from sdk import until

    await fails(e2b.TimeoutException, lambda: sandbox.commands.run("sleep 4242", timeout=1))

    async def is_gone():
        return (await do(sandbox.commands.run("pgrep -f 'sleep 424[2]' || echo none"))).stdout == "none\n"

    await until(is_gone, "it ends")


@case()
async def a_missing_program_exits_with_code_127(world, sandbox):
    error = await fails(e2b.CommandExitException, lambda: sandbox.commands.run("no-such-program"))
    assert error.exit_code == 127 and "no-such-program" in error.stderr


@case()
async def python_and_git_are_installed(world, sandbox):
    result = await do(sandbox.commands.run("python3 -c 'print(6*7)' && git --version && curl --version | head -1"))
    assert result.stdout.startswith("42\ngit version"), result.stdout
