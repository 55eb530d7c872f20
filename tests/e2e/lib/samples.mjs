// What a metrics page has, as tests compare it.
import assert from 'node:assert/strict';

/** The samples of a page by name and labels; the labels in order, and without that of the app. */
export function samplesOf(text) {
  const samples = {};
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const { name, labels = '', value } = /^(?<name>[\w:]+)(?:\{(?<labels>.*)\})? (?<value>\S+)$/.exec(line)?.groups ?? assert.fail(line);
    const own = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].filter(([, label]) => label !== 'app').map(([, label, text]) => `${label}=${text}`);
    const series = `${name}{${own.sort().join()}}`;
    assert.ok(!(series in samples), `twice: ${series}`);
    samples[series] = Number(value.replace('Inf', 'Infinity').replace('Nan', 'NaN'));
  }
  return samples;
}
