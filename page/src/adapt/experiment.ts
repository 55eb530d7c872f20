// `forkful experiment`: the reported and the measured results side by side; the document contains the plots.

import { asList, asObject, asText, type Document, type JsonObject, type Scalar } from '../document';
import { tableOfObjects } from '../read';
import { tilesOfArm } from './common';

export function adaptExperiment(json: JsonObject, page: Document): void {
  const question = [asText(json.question), asText(json.original) && `The report: ${asText(json.original)}.`].filter(Boolean).join(' ');
  const rows = asList(json.claims).map(asObject).map((claim): Scalar[] => [asText(claim.what), asText(claim.reported), asText(claim.found), asText(claim.why)]);
  if (rows.length > 0) {
    page.tables.push({ title: 'Reported and measured results', note: question, columns: ['', 'reported', 'found here', 'why'], rows });
  }
  page.tables.push(...tableOfObjects('The arms', json.arms));
  for (const arm of asList(json.arms).map(asObject)) page.tiles.push(...tilesOfArm(asText(arm.name), arm.requests_per_second, arm.p99_ms));
}
