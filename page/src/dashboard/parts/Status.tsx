// A state as shape, colour and word: each of them is enough.

const LOOKS: Record<string, { sign: string; kind: string }> = {
  online: { sign: '●', kind: 'good' },
  launching: { sign: '◐', kind: 'busy' },
  stopping: { sign: '◑', kind: 'busy' },
  stopped: { sign: '■', kind: 'off' },
  finished: { sign: '✓', kind: 'off' },
  errored: { sign: '✕', kind: 'bad' },
  'waiting restart': { sign: '↻', kind: 'bad' },
  degraded: { sign: '▲', kind: 'bad' },
  blocked: { sign: '▲', kind: 'bad' },
};

export function Status({ status, text }: { status: string; text?: string }) {
  const { sign, kind } = LOOKS[status] ?? { sign: '?', kind: 'off' };
  return <span class={`status ${kind}`}><span class="shape" aria-hidden="true">{sign}</span> {text ?? status}</span>;
}
