// A line of text that an app has written: its content is hostile, see ansi.ts.

import { pieces } from '../ansi';

export function Text({ line }: { line: string }) {
  return <bdi class="text">{pieces(line).map(({ text, look }, index) => <span key={index} class={look}>{text}</span>)}</bdi>;
}
