// A server that speaks HTTP/2 and nothing else, as those of gRPC do: `node grpc.js PORT`.
const server = require("http2").createServer();
server.on("stream", (stream, headers) => {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0", "x-path": headers[":path"] }));
  stream.pipe(stream);
});
server.listen(Number(process.argv[2]), "127.0.0.1");
