// Converts the JSON of any kind to the page: first the common keys, then the keys of each kind.

import { adaptBench } from './adapt/bench';
import { createdAt, prefixed } from './adapt/common';
import { adaptCompare } from './adapt/compare';
import { adaptExperiment } from './adapt/experiment';
import { adaptTune } from './adapt/tune';
import { asList, asObject, asText, at, isObject, type Document, type JsonObject, type TrustCheck } from './document';
import { readChecks, readPairs, readPlots, readTables, tableOfObjects } from './read';

const TITLES: Record<string, string> = {
  bench: 'Load test', compare: 'Comparison', tune: 'Tuning', experiment: 'Experiment',
};

export function adapt(value: unknown): Document {
  const json = asObject(value);
  const kind = asText(json.kind);
  const page = common(json, kind);
  if (kind === 'bench') adaptBench(json, page);
  else if (kind === 'compare') adaptCompare(json, page);
  else if (kind === 'tune') adaptTune(json, page);
  else if (kind === 'experiment') adaptExperiment(json, page);
  else page.tables.push(...tableOfObjects('The arms', json.arms));
  page.tables.push(...readTables(json.tables));
  page.plots.push(...readPlots(json.plots));
  if (page.headline === '') page.headline = asText(at(json, 'trust', 'text'));
  if (page.trustworthy === false) {
    page.checks = withoutWarning(page);
    // The warning stands right above it.
    if (page.trustText && plain(page.headline).endsWith(plain(page.trustText))) page.headline = '';
  }
  page.details = eachOnce(page);
  return page;
}

const plain = (text: string): string => text.toLowerCase().replace(/[.\s]+$/, '');

/** Checks whose meaning is in the warning have only their name and sign. */
function withoutWarning(page: Document): TrustCheck[] {
  const warning = plain(page.trustText);
  return page.checks.map((check) => (warning.includes(plain(check.meaning)) ? { ...check, meaning: '' } : check));
}

/** Details that are in no other part of the page, such as the headline, the warning or the trust box. */
function eachOnce(page: Document): string[] {
  const said = [page.headline, page.trustText, ...page.checks.map((check) => check.meaning)].map(plain).filter(Boolean);
  return page.details.filter((detail) => {
    const text = plain(detail);
    if (said.some((other) => other.includes(text))) return false;
    said.push(text);
    return true;
  });
}

function common(json: JsonObject, kind: string): Document {
  const { trust } = json;
  const trusted = typeof json.trustworthy === 'boolean' ? json.trustworthy : at(trust, 'trustworthy');
  return {
    kind,
    title: asText(json.title) || titleOf(json, kind),
    headline: asText(json.headline) || asText(json.sentence) || asText(at(json.verdict, 'text')),
    details: asList(json.details).map(asText).filter(Boolean),
    word: isObject(json.verdict) ? asText(json.verdict.word) : asText(json.verdict),
    trustworthy: typeof trusted === 'boolean' ? trusted : null,
    trustText: asText(at(trust, 'text')),
    checks: readChecks(trust),
    tiles: [],
    tables: [],
    plots: [],
    environment: [...readPairs(json.environment), ...prefixed('', json.machine), ...prefixed('target: ', json.target), ...prefixed('plan: ', json.plan), ...seed(json)],
    command: asText(json.command),
    createdAt: createdAt(json),
    version: asText(json.forkful) || (typeof json.version === 'string' ? json.version : ''),
  };
}

const seed = (json: JsonObject): [string, string][] => (asText(json.seed) === '' ? [] : [['seed', asText(json.seed)]]);

function titleOf(json: JsonObject, kind: string): string {
  const target = json.target;
  const what = isObject(target) ? [asText(target.script) || asText(target.url), asText(target.path)].filter(Boolean).join(' ') : asText(target);
  const name = TITLES[kind] ?? 'Report';
  return what ? `${name}: ${what}` : name;
}
