'use strict';
// Values of a caller as JSON. What JSON cannot represent is an error that names its place.
const { ForkfulError } = require('./errors.cjs');

/**
 * The text of a value.
 * @param {unknown} value
 * @param {{ replacer?: (key: string, value: unknown) => unknown, nameOf?: (path: string[]) => string }} [how] `nameOf` names a place
 * within the value, for the error
 */
function written(value, { replacer, nameOf = quoted } = {}) {
  try {
    return JSON.stringify(value, replacer);
  } catch (error) {
    // V8 draws a circle below its first line.
    const [reason] = error.message.split('\n');
    throw new ForkfulError('BAD_REQUEST', `${nameOf(placeOf(value, replacer))} cannot be written as JSON: ${reason}`, { cause: error });
  }
}

/** A place within a value. @param {string[]} path */
function quoted(path) {
  return path.length === 0 ? 'the value' : `\`${path.join('.')}\``;
}

/** The keys that lead to what cannot be written. */
function placeOf(value, replacer, around = []) {
  if (value === null || typeof value !== 'object' || around.includes(value)) return [];
  const fails = ([, inner]) => {
    try {
      JSON.stringify(inner, replacer);
      return false;
    } catch {
      return true;
    }
  };
  const found = Object.entries(value).find(fails);
  return found === undefined ? [] : [found[0], ...placeOf(found[1], replacer, [...around, value])];
}

module.exports = { quoted, written };
