// Generates values for a JSON schema, mostly valid, sometimes not. The same seed generates the same values.

/** Texts with and without a special meaning. None is the name of a program or file of the system. */
const TEXTS = [
  '', 'a', 'api', '0', '-1', 'all', '/api/', '/(/', 'a,b', '\\', '../x', '/nonexistent/x', 'x'.repeat(300), 'ä💥', '\u0000', '\n', '%00', '1e999', 'NODE_x', '__proto__', 'constructor', ' ',
];
const NUMBERS = [0, 1, -1, 2, 7, 255, 65_535, 65_536, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 63), 1e308, 0.5];
const ANYTHING = [null, true, false, 0, -1.5, '', 'x', [], {}, [[[[]]]], { a: { b: [1] } }];
/** Rate of schema violations: never in some values, often in others. */
const WRONG = [0, 0, 0.01, 0.1];
const DEPTH_MAX = 8;

export class Generator {
  #state;

  #document;

  #wrong = 0;

  constructor(document, seed) {
    this.#document = document;
    this.#state = seed >>> 0;
  }

  chance() {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }

  one(list) {
    return list[Math.floor(this.chance() * list.length)];
  }

  #resolved(schema) {
    if (typeof schema !== 'object' || schema === null) return {};
    if (!schema.$ref) return schema;
    return schema.$ref.replace(/^#\//, '').split('/').reduce((part, key) => part[key.replaceAll('~1', '/').replaceAll('~0', '~')], this.#document);
  }

  /** A new value with its own violations. */
  whole(schema, name = '') {
    this.#wrong = this.one(WRONG);
    return this.value(schema, name);
  }

  /** A value. `name` is its key. */
  value(given, name = '', depth = 0) {
    const schema = this.#resolved(given);
    if (this.chance() < this.#wrong || depth > DEPTH_MAX) return this.one(ANYTHING);
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return this.one(schema.enum);
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices) return this.value(this.one(choices), name, depth + 1);
    if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => this.value(part, name, depth + 1)));
    const types = [schema.type ?? 'any'].flat();
    return this.#typed(this.one(types), schema, name, depth);
  }

  #typed(type, schema, name, depth) {
    switch (type) {
      case 'null': return null;
      case 'boolean': return this.chance() < 0.5;
      case 'integer': case 'number': return this.#number(schema, name);
      case 'string': return this.one(TEXTS);
      case 'array': return Array.from({ length: Math.max(schema.minItems ?? 0, Math.floor(this.chance() * 3)) }, () => this.value(schema.items, name, depth + 1));
      case 'object': return this.#object(schema, depth);
      default: return this.one(ANYTHING);
    }
  }

  #number(schema, name) {
    // Waits must end.
    if (/_ms$/.test(name)) return Math.floor(this.chance() * 50);
    if (name === 'instances') return this.one([0, 1, 2, -1, 70_000]);
    const number = this.one(NUMBERS);
    return this.chance() < 0.7 ? Math.min(schema.maximum ?? number, Math.max(schema.minimum ?? number, number)) : number;
  }

  #object(schema, depth) {
    const known = Object.entries(schema.properties ?? {});
    const required = new Set(schema.required ?? []);
    const kept = known.filter(([name]) => this.chance() > (required.has(name) ? this.#wrong : 0.7));
    const pairs = kept.map(([name, part]) => [name, this.value(part, name, depth + 1)]);
    const more = schema.additionalProperties;
    if (typeof more === 'object' && this.chance() < 0.7) pairs.push([this.one(TEXTS), this.value(more, '', depth + 1)]);
    if (this.chance() < this.#wrong) pairs.push([this.one(TEXTS), this.one(ANYTHING)]);
    return Object.fromEntries(pairs);
  }
}
