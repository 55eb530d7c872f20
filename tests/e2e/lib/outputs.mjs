// Holds what commands print with `--json` against docs/output.schema.json.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import Ajv2020 from 'ajv/dist/2020.js';

export const SCHEMA = JSON.parse(readFileSync(new URL('../../../docs/output.schema.json', import.meta.url), 'utf8'));

/** Widths of numbers, which the schemas bound themselves. */
const FORMATS = Object.fromEntries(['int32', 'uint', 'uint8', 'uint16', 'uint32', 'uint64', 'float', 'double'].map((name) => [name, true]));

/** An object's schema that says nothing of other keys allows none, so that an output with a key that is not described fails. */
function closed(schema) {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isObject = copy.type === 'object' && typeof copy.properties === 'object' && copy.additionalProperties === undefined;
  return isObject ? { ...copy, unevaluatedProperties: false } : copy;
}

const ajv = new Ajv2020({ strict: false, allErrors: true, formats: FORMATS });
ajv.addSchema(closed(SCHEMA), 'outputs');

/** Fails unless a command's output is as its schema says. @param {string} command a key of the document @param {unknown} output */
export function checkOutput(command, output) {
  const validate = ajv.getSchema(`outputs#/properties/${encodeURIComponent(command)}`);
  assert.ok(validate, `the document has no ${command}`);
  assert.ok(validate(output), `forkful ${command}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(output).slice(0, 3000)}`);
}
