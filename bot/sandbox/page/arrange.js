// Keyed DOM update: unchanged elements are kept, so that selections, folded quotes and animations survive.

// Put `rows` ({key, sign, build}) into a container after `spot`; returns the current rows by key.
export function arrange(container, spot, kept, rows) {
  const now = new Map();
  for (const { key, sign, build } of rows) {
    const old = kept.get(key);
    const row = old?.sign === sign ? old : { sign, element: build(), inner: new Map() };
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
