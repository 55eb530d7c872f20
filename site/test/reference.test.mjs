// Reference pages are what their sources say.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { DOCS } from '../pages.mjs';
import { PAGES } from '../reference.mjs';

for (const [file, page] of Object.entries(PAGES)) {
  test(`${file} is what its source says`, () => {
    assert.ok(readFileSync(path.join(DOCS, file), 'utf8') === page(), `docs/${file} is stale: npm run reference --prefix site`);
  });
}

test('each function and type of the JavaScript client is on its page', () => {
  const types = ['index.d.ts', 'index.views.d.ts'].map((file) => readFileSync(path.join(DOCS, '../npm/forkful', file), 'utf8')).join('\n');
  const page = readFileSync(path.join(DOCS, 'JAVASCRIPT.md'), 'utf8');
  const names = [...types.matchAll(/^export (?:interface|class|function|const|type) (\w+)/gm)].map(([, name]) => name).filter((name) => name !== 'App');
  assert.ok(names.length > 30, `names were found: ${names.length}`);
  assert.deepEqual(names.filter((name) => !page.includes(`\n### ${name}\n`)), []);
});

test('each request of the API is on its page', () => {
  const { paths, components } = JSON.parse(readFileSync(path.join(DOCS, '../crates/forkful-api/openapi.json'), 'utf8'));
  const page = readFileSync(path.join(DOCS, 'API.md'), 'utf8');
  const requests = Object.entries(paths).flatMap(([address, methods]) => Object.keys(methods).map((method) => `### \`${method.toUpperCase()} ${address}\`\n`));
  assert.ok(requests.length > 15, `requests were found: ${requests.length}`);
  assert.deepEqual(requests.filter((request) => !page.includes(request)), []);
  const used = [...page.matchAll(/\]\(#(\w+)\)/g)].map(([, name]) => name);
  const shown = new Set(Object.keys(components.schemas).map((name) => name.toLowerCase()));
  assert.deepEqual(used.filter((name) => !shown.has(name)), []);
});
