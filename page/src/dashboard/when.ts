// Times and spans.

/** 14:03:27, in the reader's time. */
export const clock = (ms: number): string => new Date(ms).toLocaleTimeString('en-GB');
/** The same with the day, unless it is today. */
export const dated = (ms: number): string => {
  const date = new Date(ms);
  return date.toDateString() === new Date().toDateString() ? clock(ms) : `${date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })}, ${clock(ms)}`;
};
/** 14:03, for long spans with the day. */
export const moment = (ms: number, span_ms: number): string =>
  span_ms > 36 * 3_600_000
    ? new Date(ms).toLocaleString('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' })
    : new Date(ms).toLocaleTimeString('en-GB', span_ms > 1_200_000 ? { hour: '2-digit', minute: '2-digit' } : {});

/** 12 s, 5 min, 3 h, 2 d. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
