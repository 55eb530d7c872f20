// The bounds of a number of workers that follows the load, and the last decision with its reason.

import { to } from '../route';
import { useStore } from '../store';
import type { App } from '../types';
import { dated } from '../when';

const DECISIONS: Record<string, string> = { scaled_up: 'scaled up', scaled_down: 'scaled down', not_scaled_up: 'no more workers' };

export function Autoscaling({ name, app: { autoscale, last_scaling: last } }: { name: string; app: App }) {
  const { incidents } = useStore();
  if (!autoscale) return null;
  const decision = incidents.findLast(({ app, kind }) => app === name && kind in DECISIONS);
  return (
    <p class="note autoscaling">
      The number of workers follows the load: {autoscale.min} to {autoscale.max}.{' '}
      {decision && (
        <>Last decision, {dated(decision.at_ms)}: {DECISIONS[decision.kind]}{decision.next && `, ${decision.next}`}: {decision.reason}{' '}
          (<a href={to('incident', decision.id)}>details</a>).</>
      )}
      {!decision && (last ? `Last change: ${last}.` : 'It has not changed yet.')}
    </p>
  );
}
