// The stalls of an app: the places that cost most, and the last stalls one by one.

import { useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { number, quantity } from '../../format';
import { Text } from '../parts/Text';
import { to } from '../route';
import type { Ledger, Stall, StallGroup } from '../stalls';
import { useLedger } from '../stalls';
import { useStore } from '../store';
import { dated } from '../when';

/** Places that are shown; `forkful stalls --json` has all. */
const PLACES_MAX = 30;

export function Stalls({ query }: { query: URLSearchParams }) {
  const { state } = useStore();
  const [chosen, choose] = useState(query.get('app') ?? '');
  const names = Object.keys(state?.apps ?? {});
  const app = names.includes(chosen) ? chosen : names[0] ?? '';
  const { ledger, fault } = useLedger(app);
  return (
    <>
      <h1 tabIndex={-1}>Stalls</h1>
      <p class="note">Times in which the event loop of a worker stood still, so that no request was answered.</p>
      {names.length > 0 && (
        <div class="tools"><label>App <select value={app} onChange={(event) => choose(event.currentTarget.value)}>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label></div>
      )}
      {fault && <p class="warning" role="status">{fault}</p>}
      {ledger ? <Known app={app} ledger={ledger} /> : !fault && <p class="note">{state && names.length === 0 ? 'There are no apps.' : 'Loading the stalls.'}</p>}
    </>
  );
}

function headline({ threshold_ms: threshold, total }: Ledger): string {
  if (total.stalls === 0) {
    return threshold === 0 ? 'Stalls are not recorded: stall_threshold is 0.' : `No event loop stood still for ${number(threshold)} ms or more since the app was added.`;
  }
  const waited = total.requests > 0 ? ` ${number(total.requests)} ${total.requests === 1 ? 'request' : 'requests'} waited ${quantity(total.waited_ms, 'ms')} in all.` : '';
  return `${number(total.stalls)} ${total.stalls === 1 ? 'stall' : 'stalls'}, ${quantity(total.stalled_ms, 'ms')} in all, the longest ${quantity(total.longest_ms, 'ms')}.${waited}`;
}

function Known({ app, ledger }: { app: string; ledger: Ledger }) {
  const { state } = useStore();
  const slotOf = (id: number) => state?.apps[app]?.workers[id]?.slot ?? id;
  const { groups, others, recent, standing, total } = ledger;
  return (
    <>
      <p class={`headline ${total.stalls === 0 ? 'faster' : ''}`}>{headline(ledger)}</p>
      {standing.map(({ pm_id: id, for_ms: for_, doing }) => <p class="warning" key={id}>Worker {slotOf(id)} stands still now, for {quantity(for_, 'ms')}: {doing}.</p>)}
      {groups.length > 0 && (
        <section>
          <h2>Places, the most expensive first</h2>
          <Table caption={`Places of stalls of ${app}`} columns={['Route', 'Function']} numbers={['Stalls', 'In all', 'Longest', 'Requests waited']}
            rows={groups.slice(0, PLACES_MAX).map((group) => ({ key: `${group.route ?? ''} ${group.function ?? ''}`, cells: placeOf(group), numbers: figures(group) }))} />
          {others.stalls > 0 && <p class="note">{number(others.stalls)} more stalls elsewhere, {quantity(others.stalled_ms, 'ms')} in all.</p>}
        </section>
      )}
      {recent.length > 0 && (
        <section>
          <h2>Last stalls</h2>
          <Table caption={`Last stalls of ${app}`} columns={['Time', 'Worker', 'Route', 'Function']} numbers={['Duration', 'Requests waited']}
            rows={recent.map((stall, index) => ({
              key: `${stall.at_ms} ${stall.pm_id} ${index}`,
              cells: [dated(stall.at_ms), <a href={to('app', app, stall.pm_id)}>worker {slotOf(stall.pm_id)}</a>, ...placeOf(stall)],
              numbers: [quantity(stall.for_ms, 'ms'), waitedOf(stall)],
            }))} />
        </section>
      )}
    </>
  );
}

const placeOf = ({ route, function: name }: Stall | StallGroup): ComponentChildren[] => [route ? <Text line={route} /> : 'no request', name ? <Text line={name} /> : 'not known'];
const waitedOf = ({ requests, waited_ms: waited }: Stall | StallGroup): string => (requests === 0 ? '–' : `${number(requests)} (${quantity(waited, 'ms')})`);
const figures = (group: StallGroup): string[] => [number(group.stalls), quantity(group.stalled_ms, 'ms'), quantity(group.longest_ms, 'ms'), waitedOf(group)];

type Row = { key: string; cells: ComponentChildren[]; numbers: string[] };

function Table({ caption, columns, numbers, rows }: { caption: string; columns: string[]; numbers: string[]; rows: Row[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class="cards" role="table">
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr role="row">
            {columns.map((name) => <th key={name} scope="col" role="columnheader">{name}</th>)}
            {numbers.map((name) => <th key={name} scope="col" role="columnheader" class="number">{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key} role="row">
              {row.cells.map((cell, index) => (index === 0
                ? <th key={index} scope="row" role="rowheader" class="text">{cell}</th>
                : <td key={index} role="cell" class="text" data-label={columns[index]}>{cell}</td>))}
              {row.numbers.map((value, index) => <td key={numbers[index]} role="cell" class="number" data-label={numbers[index]}>{value}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
