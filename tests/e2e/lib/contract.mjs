// Validates the daemon against `openapi.json`: checks every request and reply that passes through here, and
// records which operations were called.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';

import Ajv2020 from 'ajv/dist/2020.js';

const DOCUMENT = JSON.parse(readFileSync(new URL('../../../crates/forkful-api/openapi.json', import.meta.url), 'utf8'));
const ID = 'openapi';

/** Time limit of a reply. */
const REPLY_MS_MAX = 180_000;

/** Widths of numbers, which the schemas bound themselves. */
const FORMATS = Object.fromEntries(['int32', 'uint', 'uint16', 'uint32', 'uint64', 'float', 'double'].map((name) => [name, true]));

const pointer = (...keys) => `${ID}#${keys.map((key) => `/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('')}`;

/** The daemon's API behind a socket, checked against the document. */
export class Contract {
  #ajv = new Ajv2020({ strict: false, allErrors: true, formats: FORMATS });
  #socketPath;

  /** @param {string} socketPath */
  constructor(socketPath) {
    this.#socketPath = socketPath;
    this.#ajv.addSchema(DOCUMENT, ID);
    /** @type {Set<string>} What was answered, as `GET /v1/ping 200`. */
    this.seen = new Set();
  }

  /** All operations that the document answers with 200. */
  static get operations() {
    return Object.entries(DOCUMENT.paths)
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path} 200`))
      .sort();
  }

  /** Fails unless a value matches the schema at a place of the document. */
  #check(what, value, ...keys) {
    const validate = this.#ajv.getSchema(pointer(...keys));
    assert.ok(validate, `the document has no ${keys.join(' › ')}`);
    assert.ok(validate(value), `${what} is not as the document says: ${this.#ajv.errorsText(validate.errors)}\n${JSON.stringify(value).slice(0, 2000)}`);
  }

  /** The document's path template for a real path. */
  static #pathOf(real) {
    const [plain] = real.split('?');
    const found = Object.keys(DOCUMENT.paths).find((path) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(plain));
    assert.ok(found, `the document has no ${plain}`);
    return found;
  }

  /** Fails unless a query has only parameters that the document has. */
  #checkQuery(real, described) {
    const known = (described.parameters ?? []).filter((parameter) => parameter.in === 'query').map(({ name }) => name);
    for (const name of new URLSearchParams(real.split('?')[1] ?? '').keys()) assert.ok(known.includes(name), `${real}: no parameter ${name}`);
  }

  /**
   * Begins a request; the reply's status and type are checked.
   * @param {string} method
   * @param {string} real the path with its query
   * @param {unknown} [body]
   * @param {{ wrong?: boolean }} [options] `wrong`: the request is meant to break the rules
   */
  async open(method, real, body, { wrong = false } = {}) {
    const path = Contract.#pathOf(real);
    const key = method.toLowerCase();
    const described = DOCUMENT.paths[path][key];
    assert.ok(described, `the document has no ${method} ${path}`);
    if (!wrong) {
      this.#checkQuery(real, described);
      if (described.requestBody) this.#check(`the request ${method} ${real}`, body, 'paths', path, key, 'requestBody', 'content', 'application/json', 'schema');
      else assert.equal(body, undefined, `${method} ${path} has no body`);
    }
    const response = await this.#send(method, real, body);
    const status = String(response.statusCode);
    const promised = described.responses[status];
    assert.ok(promised, `${method} ${real} was answered with ${status}, which the document does not have`);
    this.seen.add(`${method} ${path} ${status}`);
    const keys = promised.$ref ? promised.$ref.split('/').slice(1) : ['paths', path, key, 'responses', status];
    const content = keys.reduce((part, name) => part[name], DOCUMENT).content;
    const type = response.headers['content-type'];
    assert.ok(type in content, `${method} ${real} was answered with ${type} instead of ${Object.keys(content).join(' or ')}`);
    return { response, status, keys: [...keys, 'content', type], path };
  }

  #send(method, path, body) {
    return new Promise((resolve, reject) => {
      const request = http.request({ socketPath: this.#socketPath, method, path, agent: false, headers: { 'content-type': 'application/json' } }, resolve);
      request.setTimeout(REPLY_MS_MAX, () => request.destroy(new Error(`no reply to ${method} ${path}`)));
      request.on('error', reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /**
   * Sends a request, checks the reply, and returns it.
   * @param {Parameters<Contract['open']>} request
   */
  async ask(...request) {
    const { response, status, keys } = await this.open(...request);
    let text = '';
    for await (const part of response.setEncoding('utf8')) text += part;
    if (keys.at(-1) !== 'application/json') return { status, text, keys };
    const reply = JSON.parse(text);
    this.#check(`the reply to ${request[0]} ${request[1]}`, reply, ...keys, 'schema');
    return { status, reply };
  }

  /** Checks a line of a stream of lines. @param {string} line @param {string[]} keys of its reply */
  line(line, keys) {
    const value = JSON.parse(line);
    this.#check('a line', value, ...keys, 'x-line');
    return value;
  }

  /**
   * Reads server-sent events and checks each one.
   * @param {string[]} keys of its reply
   * @param {AsyncIterable<string>} texts
   */
  async* events(keys, texts) {
    let rest = '';
    for await (const text of texts) {
      const frames = (rest + text).split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames.filter((frame) => !frame.startsWith(':'))) {
        const { name, data } = /^event: (?<name>.+)\ndata: (?<data>.+)$/.exec(frame)?.groups ?? assert.fail(frame);
        const event = JSON.parse(data);
        this.#check(`the event ${name}`, event, ...keys, 'x-events', name);
        yield { name, event };
      }
    }
    assert.equal(rest, '');
  }
}
