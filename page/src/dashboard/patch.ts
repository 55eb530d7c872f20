// JSON Merge Patch (RFC 7396). Objects that do not change stay the same objects.

type Json = unknown;
const isObject = (value: Json): value is Record<string, Json> => typeof value === 'object' && value !== null && !Array.isArray(value);

export function patched(target: Json, patch: Json): Json {
  if (!isObject(patch)) return patch;
  // Without a prototype, so that an app's name cannot be one of its properties.
  const next: Record<string, Json> = Object.assign(Object.create(null), isObject(target) ? target : {});
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete next[name];
    else next[name] = patched(next[name], value);
  }
  return next;
}
