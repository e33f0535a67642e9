// Frames of Connect streams, gRPC and gRPC-Web: a byte of flags, four of length, a message.

/** A message as one frame. */
export function frame(message) {
  const data = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
}

/** The frames of a body that comes in pieces, as soon as each is whole. */
export async function* frames(pieces) {
  let rest = Buffer.alloc(0);
  for await (const piece of pieces) {
    rest = Buffer.concat([rest, piece]);
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
      const end = 5 + rest.readUInt32BE(1);
      yield { flags: rest[0], data: rest.subarray(5, end) };
      rest = rest.subarray(end);
    }
  }
  if (rest.length > 0) throw new Error(`torn in the middle of a frame: ${rest.length} bytes are left`);
}

/** The fields with a length of a protobuf message, by number: as much of the format as the detail of an error needs. */
export function fields(data) {
  const found = {};
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = data[at++];
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < data.length) {
    const key = varint();
    if (key % 8 === 0) {
      varint();
    } else if (key % 8 === 2) {
      const length = varint();
      (found[key >> 3] ??= []).push(data.subarray(at, at + length));
      at += length;
    } else {
      throw new Error(`a field of kind ${key % 8}`);
    }
  }
  return found;
}

/** The error in the trailers of gRPC, with its detail read from the packed status; nothing when all went well. */
export function grpcError(trailers) {
  if (trailers['grpc-status'] === '0') return undefined;
  const packed = Buffer.from(trailers['grpc-status-details-bin'] ?? '', 'base64');
  // google.rpc.Status: details is 3; google.protobuf.Any: type_url is 1, value is 2.
  const [any] = fields(packed)[3] ?? [];
  const [type, value] = any ? [String(fields(any)[1][0]), fields(any)[2][0]] : [];
  return {
    code: Number(trailers['grpc-status']),
    message: decodeURIComponent(trailers['grpc-message'] ?? ''),
    // sandbar.v1.ErrorDetail: code is 1.
    detail: type?.endsWith('/sandbar.v1.ErrorDetail') ? String(fields(value)[1][0]) : undefined,
  };
}

/** The error in the JSON of Connect. */
export function connectError({ code, message, details }) {
  const [detail] = details ?? [];
  // Binary is what a client with types reads; `debug` is for people. They have to agree.
  const read = detail && String(fields(Buffer.from(detail.value, 'base64'))[1][0]);
  if (read !== detail?.debug?.code) throw new Error(`${read} is not what debug says: ${JSON.stringify(detail)}`);
  return { code, message, detail: read };
}

export class Refused extends Error {
  constructor(error) {
    super(`${error.code}: ${error.message}`);
    Object.assign(this, error);
  }
}
