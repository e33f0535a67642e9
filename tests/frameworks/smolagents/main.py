"""smolagents: a `CodeAgent` with `executor_type="e2b"`, and its executor alone."""

import base64
import io

import PIL.Image
from checks import check, check_contains, check_equal
from e2b_code_interpreter import Sandbox
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor

STEPS = [
    'total = sum(numbers)\nprint("total is", total)\nprint("words:", count_words("one two three"))',
    'with open("/home/user/total.txt", "w") as file:\n    file.write(str(total))\n{}["missing"]',
    # The traceback has a frame without a source file, as with compiled libraries.
    'exec(compile("\\n\\n\\n1 / 0", "<generated>", "exec"))',
    'final_answer({"total": total, "file": open("/home/user/total.txt").read()})',
]


@tool
def count_words(text: str) -> int:
    """Counts the words of a text.

    Args:
        text: the text
    """
    return len(text.split())


class ScriptedModel(Model):
    """Returns the steps one after the other, and records the last message before each."""

    def __init__(self):
        super().__init__(model_id="scripted")
        self.received = []

    def generate(self, messages, **_):
        self.received.append(str(messages[-1].content))
        code = STEPS[len(self.received) - 1]
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on.\n<code>\n{code}\n</code>")


def picture():
    image = io.BytesIO()
    PIL.Image.new("RGB", (4, 3), "red").save(image, format="PNG")
    return base64.b64encode(image.getvalue()).decode()


def agent_in_a_sandbox():
    model = ScriptedModel()
    with CodeAgent(tools=[count_words], model=model, executor_type="e2b", verbosity_level=LogLevel.OFF) as agent:
        sandbox = agent.python_executor.sandbox
        answer = agent.run("Add the numbers.", additional_args={"numbers": [1, 2, 3]})
        check_contains("variables and tools of the agent are in the sandbox", model.received[1], "total is 6", "words: 3")
        check_contains("the model receives an error", model.received[2], "KeyError", "missing")
        check_contains("the model receives an error from code without a source", model.received[3], "ZeroDivisionError")
        check_equal("the final answer has variables of earlier steps", answer, {"total": 6, "file": "6"})
        check_equal("files are in the sandbox", sandbox.files.read("/home/user/total.txt"), "6")
    check("the sandbox is gone after the agent", not sandbox.is_running())


def executor_alone():
    executor = E2BExecutor([], AgentLogger(level=LogLevel.OFF), metadata={"by": "smolagents"})
    info = executor.sandbox.get_info()
    check_equal("arguments for the sandbox arrive", info.metadata, {"by": "smolagents"})
    executor.send_variables({"when": (1, 2), "raw": b"\x00\xff"})
    output = executor("print(when, raw)\nlen(raw)")
    check_equal("variables of all kinds are sent", (output.logs, output.output), ("(1, 2) b'\\x00\\xff'\n", "2"))
    code = f"import base64\nclass Picture:\n    def _repr_png_(self):\n        return base64.b64decode('{picture()}')\nPicture()"
    image = executor(code).output
    check("a picture comes back as a picture", isinstance(image, PIL.Image.Image) and image.size == (4, 3), image)
    executor.cleanup()
    left = Sandbox.list().next_items()
    check_equal("no sandbox is left", left, [])


agent_in_a_sandbox()
executor_alone()
