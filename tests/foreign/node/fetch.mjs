// Transports over Node's `fetch`: HTTP/1.1, and half-duplex, as it sends the whole request first.

import { Refused, connectError, frame, frames, grpcError } from './frames.mjs';

function post(url, token, type, body) {
  return fetch(url, { method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': type }, body });
}

export class ConnectFetch {
  notFound = 'not_found';
  unauthenticated = 'unauthenticated';

  constructor(base, token) {
    Object.assign(this, { base, token });
  }

  async call(method, message) {
    const response = await post(`${this.base}/${method}`, this.token, 'application/json', JSON.stringify(message));
    const answer = await response.json();
    if (!response.ok) throw new Refused(connectError(answer));
    return answer;
  }

  async *stream(method, ...messages) {
    const body = Buffer.concat(messages.map(frame));
    const response = await post(`${this.base}/${method}`, this.token, 'application/connect+json', body);
    if (!response.ok) throw new Refused(connectError(await response.json()));
    for await (const { flags, data } of frames(response.body)) {
      const message = JSON.parse(data);
      if (!(flags & 2)) yield message;
      else if (message.error) throw new Refused(connectError(message.error));
    }
  }
}

export class GrpcWebFetch {
  notFound = 5;
  unauthenticated = 16;

  constructor(base, token) {
    Object.assign(this, { base, token });
  }

  async call(method, message) {
    const answers = [];
    for await (const answer of this.stream(method, message)) answers.push(answer);
    if (answers.length !== 1) throw new Error(`${answers.length} answers to one call`);
    return answers[0];
  }

  async *stream(method, ...messages) {
    const body = Buffer.concat(messages.map(frame));
    const response = await post(`${this.base}/${method}`, this.token, 'application/grpc-web+json', body);
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    // A call that fails at once has its status in the headers.
    let trailers = response.headers.has('grpc-status') ? Object.fromEntries(response.headers) : undefined;
    for await (const { flags, data } of frames(response.body)) {
      if (flags & 0x80) trailers = Object.fromEntries(String(data).trim().split('\r\n').map(split));
      else yield JSON.parse(data);
    }
    if (!trailers) throw new Error('no trailers came');
    const error = grpcError(trailers);
    if (error) throw new Refused(error);
  }
}

function split(line) {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
