// Keyed DOM update: unchanged elements are kept, so that selections, folded quotes and animations survive.

// Make `rows` ({key, sign, build}) the children of a container; returns the current rows by key.
export function updateByKey(container, kept, rows) {
  const now = new Map();
  let spot = container.firstChild;
  for (const { key, sign, build } of rows) {
    const old = kept.get(key);
    const row = old?.sign === sign ? old : { sign, element: build() };
    if (old && row !== old) {
      if (spot === old.element) spot = old.element.nextSibling;
      old.element.remove();
    }
    if (row.element === spot) spot = spot.nextSibling;
    else container.insertBefore(row.element, spot);
    now.set(key, row);
  }
  for (const [key, row] of kept) if (!now.has(key)) row.element.remove();
  return now;
}
