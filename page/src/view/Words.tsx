// A sentence in which `words between backticks` are code, as the command's messages have them.

export function Words({ text }: { text: string }) {
  const parts = text.split('`');
  // An unpaired backtick is an ordinary character.
  if (parts.length % 2 === 0) return <>{text}</>;
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}
