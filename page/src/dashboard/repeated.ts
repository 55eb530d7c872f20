// A question to the daemon that is asked repeatedly while the page is visible.

import { useEffect, useState } from 'preact/hooks';
import { ask } from './session';

type Question<T> = {
  /** Path and query below `/api/`; null: nothing is asked. */
  path: () => string | null;
  every_ms: number;
  /** The answer in a reply; null if the reply cannot be read. */
  read: (reply: unknown) => T | null;
  /** The fault of a reply that cannot be read. */
  unreadable: string;
};

type Found<T> = { answer: T | null; fault: string };

/** The last answer; begins anew when one of `inputs` changes. */
export function useRepeated<T>({ path, every_ms, read, unreadable }: Question<T>, inputs: unknown[]): Found<T> {
  const [found, setFound] = useState<Found<T>>({ answer: null, fault: '' });
  useEffect(() => {
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      const question = path();
      if (question === null) return;
      if (!document.hidden) {
        try {
          const answer = read(await (await ask(question, { signal: control.signal })).json());
          setFound({ answer, fault: answer ? '' : unreadable });
        } catch (error) {
          if (control.signal.aborted) return;
          setFound((before) => ({ ...before, fault: error instanceof Error ? error.message : String(error) }));
        }
      }
      timer = setTimeout(look, every_ms);
    };
    setFound({ answer: null, fault: '' });
    void look();
    return () => { control.abort(); clearTimeout(timer); };
  }, inputs);
  return found;
}
