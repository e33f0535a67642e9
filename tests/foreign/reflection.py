"""Drives a host through Python's `grpcio` with nothing compiled, as `grpcurl` does.

The service and its messages come from the server by reflection; the protobuf library makes classes.
Usage: URL=http://127.0.0.1:9100 TOKEN=... SESSION=... reflection.py VERSION
       VERSION: of the reflection service, v1 or v1alpha
"""

import os
import queue
import sys

import grpc

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError:
    # The Google Cloud SDK vendors the library as `cloudsdk.google`. Its directory comes last, since
    # its other packages must not take precedence.
    sys.path.append(os.environ["GOOGLE_SDK_LIBRARIES"])
    from cloudsdk.google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory

SERVICE = "sandbar.v1.SandboxService"
TEXT, BYTES, NUMBER, MESSAGE = 9, 12, 5, 11  # Types of fields, as descriptor.proto numbers them.
CALL_TIMEOUT = 60  # Seconds.


def declare(pool, package, messages, imports=()):
    """Adds messages to a pool: {name: [(field, number, type, type's name or None, repeated)]}."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.by_hand.proto", package=package, syntax="proto3")
    file.dependency.extend(imports)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of, repeated in fields:
            entry = message.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if of:
                entry.type_name = of
    pool.AddSerializedFile(file.SerializeToString())


def class_of(pool, descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def named(pool, name):
    return class_of(pool, pool.FindMessageTypeByName(name))


class Reflection:
    """Client of `grpc.reflection`, with only the fields that it uses."""

    def __init__(self, channel, metadata, version):
        package = f"grpc.reflection.{version}"
        pool = descriptor_pool.DescriptorPool()
        declare(pool, package, {
            "ServerReflectionRequest": [
                ("host", 1, TEXT, None, False),
                ("file_by_filename", 3, TEXT, None, False),
                ("file_containing_symbol", 4, TEXT, None, False),
                ("list_services", 7, TEXT, None, False),
            ],
            "FileDescriptorResponse": [("file_descriptor_proto", 1, BYTES, None, True)],
            "ServiceResponse": [("name", 1, TEXT, None, False)],
            "ListServiceResponse": [("service", 1, MESSAGE, f".{package}.ServiceResponse", True)],
            "ErrorResponse": [("error_code", 1, NUMBER, None, False), ("error_message", 2, TEXT, None, False)],
            "ServerReflectionResponse": [
                ("file_descriptor_response", 4, MESSAGE, f".{package}.FileDescriptorResponse", False),
                ("list_services_response", 6, MESSAGE, f".{package}.ListServiceResponse", False),
                ("error_response", 7, MESSAGE, f".{package}.ErrorResponse", False),
            ],
        })
        self.request = named(pool, f"{package}.ServerReflectionRequest")
        self.call = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo",
            request_serializer=self.request.SerializeToString,
            response_deserializer=named(pool, f"{package}.ServerReflectionResponse").FromString,
        )
        self.metadata = metadata

    def ask(self, **question):
        (answer,) = self.call(iter([self.request(**question)]), metadata=self.metadata, timeout=CALL_TIMEOUT)
        assert not answer.HasField("error_response"), answer
        return answer

    def services(self):
        # A field of a one-of is sent when it is set, also when it is set to nothing.
        return {service.name for service in self.ask(list_services="*").list_services_response.service}

    def pool_for(self, *symbols):
        """Returns a pool with the files of these symbols and all their dependencies."""
        files = {}

        def take(answer):
            for data in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(data)
                files[file.name] = file

        for symbol in symbols:
            take(self.ask(file_containing_symbol=symbol))
        # A server may send dependencies along with a file, or only on request.
        while missing := {name for file in files.values() for name in file.dependency} - files.keys():
            for name in missing:
                take(self.ask(file_by_filename=name))
        pool = descriptor_pool.DescriptorPool()
        added = set()

        def add(name):
            if name in added:
                return
            added.add(name)
            for dependency in files[name].dependency:
                add(dependency)
            pool.AddSerializedFile(files[name].SerializeToString())

        for name in files:
            add(name)
        return pool


def official_pool(channel, metadata):
    """Returns the pool of the `grpcio-reflection` package, if that is installed."""
    try:
        from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    except ImportError:
        return None
    with_token = grpc.intercept_channel(channel, AddMetadata(metadata))
    return descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(with_token))


class AddMetadata(grpc.StreamStreamClientInterceptor):
    def __init__(self, metadata):
        self.metadata = metadata

    def intercept_stream_stream(self, continuation, details, requests):
        return continuation(details._replace(metadata=list(details.metadata or []) + list(self.metadata)), requests)


class Service:
    """Calls RPCs by name, with dictionaries as messages."""

    def __init__(self, channel, pool, metadata):
        self.channel, self.pool, self.metadata = channel, pool, metadata
        self.methods = pool.FindServiceByName(SERVICE).methods_by_name

    def stub(self, name, kind):
        method = self.methods[name]
        return getattr(self.channel, kind)(
            f"/{SERVICE}/{name}",
            request_serializer=lambda fields: json_format.ParseDict(
                fields, class_of(self.pool, method.input_type)()
            ).SerializeToString(),
            response_deserializer=lambda data: json_format.MessageToDict(
                class_of(self.pool, method.output_type).FromString(data)
            ),
        )

    def unary(self, name, /, **fields):
        return self.stub(name, "unary_unary")(fields, metadata=self.metadata, timeout=CALL_TIMEOUT)

    def answers(self, name, /, **fields):
        return self.stub(name, "unary_stream")(fields, metadata=self.metadata, timeout=CALL_TIMEOUT)

    def conversation(self, name, requests):
        return self.stub(name, "stream_stream")(requests, metadata=self.metadata, timeout=CALL_TIMEOUT)

    def tool(self, session, name, call_id, **params):
        answer = self.unary(
            "ExecuteTool", sessionId=session, toolName=name, toolCallId=call_id, params=params
        )["result"]
        assert not answer.get("isError"), answer
        return answer

    def detail(self, error):
        """Returns the typed detail of an error from the gRPC status trailer."""
        declare(self.pool, "google.rpc", {
            "Status": [
                ("code", 1, NUMBER, None, False),
                ("message", 2, TEXT, None, False),
                ("details", 3, MESSAGE, ".google.protobuf.Any", True),
            ]
        }, imports=[self.any_file()])
        (data,) = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
        status = named(self.pool, "google.rpc.Status").FromString(data)
        assert status.message == error.details(), status
        (packed,) = status.details
        assert packed.type_url.endswith("/sandbar.v1.ErrorDetail"), packed
        return named(self.pool, "sandbar.v1.ErrorDetail").FromString(packed.value)

    def any_file(self):
        file = any_pb2.DESCRIPTOR
        self.pool.AddSerializedFile(file.serialized_pb)
        return file.name


def refusal(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call was not refused")


def did(step, saw):
    print(f"{step}: {saw}", flush=True)


def drive(service, session):
    made = service.unary("CreateSession", baseSnapshot="host", sessionId=session, labels={"client": "grpcio"})["session"]
    assert made["sessionId"] == session and made["state"] == "SESSION_STATE_ACTIVE", made
    did("create", made["state"])

    service.tool(session, "write_file", "write", path="note.txt", content="first\n")
    read = service.tool(session, "read_file", "read", path="note.txt")
    assert "first" in read["content"] and read["tier"] == 1, read
    did("tool", read["content"].strip())

    snapshot = service.unary("CreateSnapshot", sessionId=session, name="clean")["snapshot"]
    assert snapshot["kind"] == "SNAPSHOT_KIND_NAMED", snapshot
    did("snapshot", snapshot["name"])

    changed = service.tool(session, "bash", "change", cmd="echo second > note.txt; echo more > extra.txt")
    assert changed["exitCode"] == 0, changed
    batches = service.answers("Diff", sessionId=session, **{"from": "clean"})
    changes = {change["path"]: change["kind"] for batch in batches for change in batch["changes"]}
    assert changes["/workspace/note.txt"] == "CHANGE_KIND_MODIFIED", changes
    assert changes["/workspace/extra.txt"] == "CHANGE_KIND_ADDED", changes
    *progress, last = service.answers(
        "ExecuteToolStream", sessionId=session, toolName="bash", toolCallId="stream",
        params={"cmd": "echo one; echo two; exit 3"},
    )
    said = "".join(event["progress"]["content"] for event in progress)
    assert said == "one\ntwo\n" and last["result"]["exitCode"] == 3, (progress, last)
    did("stream", f"{len(changes)} changes, {said!r}")

    service.unary("RollbackSession", sessionId=session, snapshot="clean")
    read = service.tool(session, "read_file", "read again", path="note.txt")
    assert "first" in read["content"], read
    gone = service.unary("ExecuteTool", sessionId=session, toolName="read_file", toolCallId="gone", params={"path": "extra.txt"})
    assert gone["result"]["isError"], gone
    did("rollback", read["content"].strip())

    error = refusal(lambda: service.unary("RollbackSession", sessionId=session, snapshot="never-taken"))
    assert error.code() == grpc.StatusCode.NOT_FOUND, error
    detail = service.detail(error)
    assert detail.code == "SnapshotNotFound" and detail.session_id == session, detail
    unauthenticated = Service(service.channel, service.pool, [("authorization", "Bearer wrong")])
    assert refusal(lambda: unauthenticated.unary("ListSessions")).code() == grpc.StatusCode.UNAUTHENTICATED
    did("error", f"{detail.code}: {error.details()}")

    requests = queue.SimpleQueue()
    requests.put({"start": {"sessionId": session, "argv": ["cat"], "stdin": True}})
    events = service.conversation("Exec", iter(requests.get, None))
    assert next(events)["started"]["pid"] > 0
    # Bytes are base64 in JSON. The answer arrives while the request side is still open.
    requests.put({"stdin": "cGluZwo="})
    echoed = next(event["stdout"] for event in events if "stdout" in event)
    requests.put({"closeStdin": {}})
    requests.put(None)
    (exited,) = [event["exited"] for event in events if "exited" in event]
    assert echoed == "cGluZwo=" and exited["code"] == 0, (echoed, exited)
    did("exec", "both ways at once")

    service.unary("DestroySession", sessionId=session)
    assert refusal(lambda: service.unary("GetSession", sessionId=session)).code() == grpc.StatusCode.NOT_FOUND
    did("destroy", "gone")


def main():
    (version,) = sys.argv[1:]
    metadata = [("authorization", f"Bearer {os.environ['TOKEN']}")]
    with grpc.insecure_channel(os.environ["URL"].removeprefix("http://")) as channel:
        reflection = Reflection(channel, metadata, version)
        services = reflection.services()
        assert SERVICE in services, services
        # No RPC refers to the type of error details; it is requested by the name in its type URL.
        pool = reflection.pool_for(SERVICE, "sandbar.v1.ErrorDetail")
        official = official_pool(channel, metadata) if version == "v1alpha" else None
        if official:
            # The client of the package finds the same service.
            theirs = official.FindServiceByName(SERVICE).methods_by_name
            assert sorted(theirs) == sorted(pool.FindServiceByName(SERVICE).methods_by_name), sorted(theirs)
        did("reflection", f"{version}, grpcio {grpc.__version__}, package's own client: {official is not None}")
        drive(Service(channel, pool, metadata), os.environ["SESSION"])


main()
