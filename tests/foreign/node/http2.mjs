// Transports over Node's `http2`: full-duplex, with all calls on one connection.

import http2 from 'node:http2';

import { Refused, connectError, frame, frames, grpcError } from './frames.mjs';

class Http2 {
  constructor(base, token) {
    const url = new URL(base);
    Object.assign(this, { path: url.pathname, token });
    this.connection = http2.connect(url.origin);
  }

  /** The same service over the same connection with another token. */
  withToken(token) {
    return Object.assign(Object.create(Object.getPrototypeOf(this)), this, { token });
  }

  close() {
    this.connection.close();
  }

  open(method, type) {
    return this.connection.request({
      ':method': 'POST',
      ':path': `${this.path}/${method}`,
      authorization: `Bearer ${this.token}`,
      'content-type': type,
      te: 'trailers',
    });
  }

  async only(answers) {
    const all = [];
    for await (const answer of answers) all.push(answer);
    if (all.length !== 1) throw new Error(`${all.length} answers to one call`);
    return all[0];
  }

  stream(method, ...messages) {
    const talk = this.talk(method);
    for (const message of messages) talk.send(message);
    talk.end();
    return talk.answers;
  }
}

function headersOf(request) {
  return new Promise((resolve, reject) => request.once('response', resolve).once('error', reject));
}

export class ConnectHttp2 extends Http2 {
  notFound = 'not_found';
  unauthenticated = 'unauthenticated';

  async call(method, message) {
    const request = this.open(method, 'application/json');
    request.end(JSON.stringify(message));
    const headers = await headersOf(request);
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const answer = JSON.parse(Buffer.concat(pieces));
    if (headers[':status'] !== 200) throw new Refused(connectError(answer));
    return answer;
  }

  /** A call whose requests and answers go past each other. */
  talk(method) {
    const request = this.open(method, 'application/connect+json');
    async function* answers() {
      const headers = await headersOf(request);
      if (headers[':status'] !== 200) throw new Error(`HTTP ${headers[':status']}`);
      for await (const { flags, data } of frames(request)) {
        const message = JSON.parse(data);
        if (!(flags & 2)) yield message;
        else if (message.error) throw new Refused(connectError(message.error));
      }
    }
    return { send: (message) => request.write(frame(message)), end: () => request.end(), answers: answers() };
  }
}

export class GrpcHttp2 extends Http2 {
  notFound = 5;
  unauthenticated = 16;

  call(method, message) {
    return this.only(this.stream(method, message));
  }

  talk(method) {
    const request = this.open(method, 'application/grpc+json');
    let trailers;
    request.on('trailers', (received) => { trailers = received; });
    async function* answers() {
      const headers = await headersOf(request);
      if (headers[':status'] !== 200) throw new Error(`HTTP ${headers[':status']}`);
      for await (const { data } of frames(request)) yield JSON.parse(data);
      // A call that fails at once has its status in the headers.
      const error = grpcError(trailers ?? headers);
      if (error) throw new Refused(error);
    }
    return { send: (message) => request.write(frame(message)), end: () => request.end(), answers: answers() };
  }
}
