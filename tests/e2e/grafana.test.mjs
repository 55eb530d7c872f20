// The Grafana dashboard and the Prometheus alerts: all metrics in their queries exist.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { parse } from 'yaml';

const docs = (name) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const METRICS = readFileSync(docs('METRICS.md'), 'utf8');
const DASHBOARD = JSON.parse(readFileSync(docs('grafana/forkful.json'), 'utf8'));
const [{ rules: RULES }] = parse(readFileSync(docs('grafana/alerts.yml'), 'utf8')).groups;

/** All names of the page for Prometheus: those of the tables in docs/METRICS.md. */
const NAMES = new Set([...METRICS.matchAll(/`((?:forkful|nodejs|process)_\w+)(?:\{[^`]*\})?`/g)].map(([, name]) => name));
const HISTOGRAMS = new Set([...METRICS.matchAll(/^\| `(\w+)` \| histogram/gm)].map(([, name]) => name));
const PANELS = DASHBOARD.panels.filter(({ type }) => type !== 'row');
const EXPRESSIONS = [
  ...PANELS.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr])),
  ...RULES.map(({ alert, expr }) => [alert, expr]),
  ...DASHBOARD.annotations.list.map(({ name, expr }) => [name, expr]),
  ...DASHBOARD.templating.list.filter(({ definition }) => definition).map(({ name, definition }) => [name, definition]),
];
const promtool = spawnSync('promtool', ['--version']).status === 0;

test('each metric of the dashboard and the alerts is in the table of metrics', () => {
  assert.ok(NAMES.size > 50 && HISTOGRAMS.size === 2);
  for (const [where, expression] of EXPRESSIONS) {
    const names = expression.match(/\b(?:forkful|nodejs|process)_\w+/g) ?? [];
    assert.ok(names.length > 0, `${where}: ${expression}`);
    for (const name of names) {
      const base = name.replace(/_(?:bucket|sum|count)$/, '');
      assert.ok(HISTOGRAMS.has(base) ? name !== base : NAMES.has(name), `${where}: there is no ${name}`);
    }
    // A counter is never shown as it is: it begins anew with another daemon that has no memory of it.
    for (const counter of names.filter((name) => name.endsWith('_total'))) assert.match(expression, new RegExp(`(?:rate|increase)\\(${counter}`), where);
  }
});

test('panels have titles, descriptions and units, and do not lie over each other', () => {
  const ids = DASHBOARD.panels.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  const taken = new Set();
  for (const { title, description, fieldConfig, gridPos: { x, y, w, h } } of PANELS) {
    assert.ok(title && description && fieldConfig.defaults.unit, title);
    assert.ok(x + w <= 24, title);
    for (let column = x; column < x + w; column += 1) {
      for (let line = y; line < y + h; line += 1) {
        assert.ok(!taken.has(`${column} ${line}`), title);
        taken.add(`${column} ${line}`);
      }
    }
  }
});

test('the dashboard and the alerts know connections and pressure', () => {
  const all = (list) => list.flatMap(({ targets, expr }) => targets?.map((target) => target.expr) ?? [expr]).join('\n');
  for (const name of ['cpu', 'memory', 'io'].map((of) => `forkful_${of}_pressure`)) {
    assert.match(all(PANELS), new RegExp(`\\b${name}\\b`));
    assert.match(all(RULES), new RegExp(`\\b${name}\\b`));
  }
  assert.match(all(PANELS), /\bforkful_connections\b/);
});

test('the alerts say what happened and what to do, and promtool accepts them', (t) => {
  for (const { alert, labels, annotations } of RULES) {
    assert.match(alert, /^Forkful\w+$/);
    assert.ok(['warning', 'critical'].includes(labels.severity) && annotations.summary && annotations.description, alert);
  }
  if (!promtool) return t.diagnostic('promtool is not installed (Debian package prometheus): the rules are not checked with it');
  const checked = spawnSync('promtool', ['check', 'rules', docs('grafana/alerts.yml')], { encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
  return undefined;
});
