// The page's start: takes the document out of the page and draws it.

import { render } from 'preact';
import { adapt } from './adapt';
import { asList, asObject, asText } from './document';
import { claim } from './palette';
import './style.css';
import { Page } from './view/Page';

// Canvases take their colours when they are drawn: before printing, in the light, whatever the system prefers.
addEventListener('beforeprint', () => document.documentElement.classList.add('printing'));
addEventListener('afterprint', () => document.documentElement.classList.remove('printing'));

const data = document.getElementById('report-data')?.textContent ?? '{}';
const json: unknown = JSON.parse(data);
claim(asList(asObject(json).arms).map((arm) => asText(asObject(arm).name)));
const page = adapt(json);
document.title = page.title;
const root = document.getElementById('page');
if (root) {
  root.textContent = '';
  render(<Page page={page} />, root);
}
