// Conversation pane: header, a window of messages around a position, drafts, the composer.

import { bubble, isOwn, isService, serviceText, textOf } from "./bubble.js";
import { composer } from "./composer.js";
import { avatar, button, icon, make, updateByKey } from "./dom.js";
import { findableSign, foundSign, howFar } from "./observed.js";
import { richBlocks } from "./rich.js";
import { act, alive, idsOf, load, messagesOf, quotedIn, store, zoneOf } from "./store.js";
import { shown } from "./text.js";
import { counted, day, dayKey, say } from "./translations.js";

const WINDOW = 80; // messages on each side of the visible position
const TOGETHER = 300; // seconds within which messages of one author are grouped
const NEAR = 120; // pixels from the end that count as "at the end"
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const SUGGESTED = 4; // questions offered at a time

export class Pane {
  constructor(root, { on, aside = false }) {
    Object.assign(this, { root, on, aside, chat: null, rows: new Map(), low: null, high: null, mark: null, missed: 0 });
    this.head = make("header", { class: "bar" });
    this.list = make("div", { class: "list", role: "log" });
    this.scroll = make("div", { class: "scroll", tabindex: "0", role: "group" }, this.list);
    this.down = button("down", say("newest"), () => this.toEnd(true), "down");
    this.far = make("p", { class: "far", role: "status", hidden: true });
    this.foot = make("footer", { class: "foot" });
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.ended = true;
    new ResizeObserver(() => this.ended && (this.scroll.scrollTop = this.scroll.scrollHeight)).observe(this.scroll);
    root.append(this.head, this.far, make("div", { class: "stage" }, this.scroll, this.down), this.foot);
  }

  async open(id, message = null) {
    const other = id !== this.chat;
    this.chat = id;
    store.unread.delete(id);
    if (other) {
      this.rows.clear();
      this.list.replaceChildren();
      Object.assign(this, { mark: null, missed: 0, composer: null, low: null, high: null });
      this.list.setAttribute("aria-busy", "true"); // only what comes later is read out
      this.foot.replaceChildren();
    }
    await load(id);
    if (this.chat !== id) return true;
    if (message) return this.jump(message);
    if (other) this.toEnd();
    this.render();
    setTimeout(() => this.list.removeAttribute("aria-busy"), 500);
    return true;
  }

  // Keep the position when something unfolds: it is not the end any more.
  hold() {
    this.ended = false;
  }

  // Scroll a message to the middle and mark it; false if it is missing.
  jump(message) {
    const ids = idsOf(this.chat), place = ids.indexOf(message);
    this.mark = place >= 0 ? `${this.chat}/${message}` : null;
    if (place < 0) {
      this.toEnd();
      return false;
    }
    if (place < this.low || place >= this.high) Object.assign(this, { low: place - WINDOW, high: place + WINDOW });
    this.render();
    const target = this.list.querySelector(`[data-message="${this.mark}"]`);
    this.list.querySelectorAll(".highlight").forEach((one) => one.classList.remove("highlight"));
    target.classList.add("highlight");
    this.ended = false;
    const tall = target.offsetHeight > this.scroll.clientHeight * 0.8;
    target.scrollIntoView({ block: tall ? "start" : "center" });
    return true;
  }

  toEnd(smooth = false) {
    const count = idsOf(this.chat).length;
    if ((this.high ?? 0) < count) Object.assign(this, { low: count - 2 * WINDOW, high: count });
    this.render();
    this.ended = true;
    this.scroll.scrollTo({ top: this.scroll.scrollHeight, behavior: smooth && !STILL.matches ? "smooth" : "instant" });
  }

  atEnd() {
    return this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR;
  }

  // Update after news: stay at the end, or keep the position.
  refresh(fresh) {
    if (this.chat === null) return;
    const chat = store.chats.get(this.chat);
    if (!chat) return;
    const mine = fresh.filter((message) => message.chat.id === this.chat);
    const stay = (this.ended && this.atEnd()) || mine.some(isOwn);
    if (stay) this.ended = true;
    const count = idsOf(this.chat).length;
    if (stay || count - this.high <= mine.length) this.high = count;
    this.missed = stay ? 0 : this.missed + mine.length;
    if (document.visibilityState === "visible") store.unread.delete(this.chat);
    this.render();
    if (stay) this.toNews(mine.at(-1));
  }

  // Scroll to the end, or to the beginning of an answer that is longer than the screen.
  toNews(message) {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    const last = message && this.list.querySelector(`[data-message="${this.chat}/${message.message_id}"]`);
    if (last?.offsetHeight > this.scroll.clientHeight) last.scrollIntoView({ block: "start" });
  }

  scrolled() {
    const count = idsOf(this.chat).length;
    if (this.scroll.scrollTop < 400 && this.low > 0) {
      const before = this.scroll.scrollHeight;
      this.low = Math.max(0, this.low - WINDOW);
      this.render();
      this.scroll.scrollTop += this.scroll.scrollHeight - before;
    } else if (this.atEnd() && this.high < count) {
      this.high = Math.min(count, this.high + WINDOW);
      this.render();
    }
    this.ended = this.atEnd();
    if (this.ended) this.missed = 0;
    this.showDown();
  }

  showDown() {
    const away = !this.atEnd() || this.high < idsOf(this.chat).length;
    this.down.classList.toggle("visible", away && idsOf(this.chat).length > 0);
    this.down.dataset.missed = this.missed || "";
  }

  render() {
    const chat = store.chats.get(this.chat);
    if (!chat) return;
    this.root.dataset.open = this.chat;
    const ids = idsOf(this.chat);
    this.high = Math.min(this.high ?? ids.length, ids.length);
    this.low = Math.max(0, Math.min(this.low ?? this.high - 2 * WINDOW, this.high));
    this.renderHead(chat);
    howFar(this.far, chat);
    const rows = this.plan(chat, ids.slice(this.low, this.high).map((id) => messagesOf(this.chat).get(id)));
    if (this.high === ids.length) rows.push(...this.passing());
    if (!rows.length && store.loaded.has(this.chat)) rows.push(this.empty(chat));
    this.rows = updateByKey(this.list, this.rows, rows);
    if (this.mark) this.list.querySelector(`[data-message="${this.mark}"]`)?.classList.add("highlight");
    this.renderFoot(chat, ids.length > 0);
    this.showDown();
  }

  // Rows of days and messages, each {key, sign, build}: the same key and sign keep their element.
  plan(chat, messages) {
    const groups = [];
    for (const message of messages) {
      const group = groups.at(-1);
      if (group && message.media_group_id && group[0].media_group_id === message.media_group_id) group.push(message);
      else groups.push([message]);
    }
    return groups.flatMap((group, index) => {
      const before = groups[index - 1]?.[0], after = groups[index + 1]?.[0], here = group[0];
      const row = isService(here) ? this.serviceRow(here) : this.groupRow(chat, group, before, after);
      const zone = zoneOf(chat), newDay = !before || dayKey(before.date, zone) !== dayKey(here.date, zone);
      return newDay ? [this.dayOf(here, zone), row] : [row];
    });
  }

  dayOf(message, zone) {
    const text = day(message.date, zone);
    const build = () => make("div", { class: "day" }, make("span", { text }));
    return { key: `day ${dayKey(message.date, zone)}`, sign: text, build };
  }

  serviceRow(message) {
    const text = serviceText(message);
    const data = { message: `${message.chat.id}/${message.message_id}` };
    const build = () => make("div", { class: "service", data }, make("span", { text }));
    return { key: `m${message.message_id}`, sign: text, build };
  }

  groupRow(chat, group, before, after) {
    const here = group[0];
    const joins = (other) => other && !isService(other) && chat.type !== "channel"
      && other.from?.id === here.from?.id && dayKey(other.date) === dayKey(here.date)
      && Math.abs(other.date - here.date) < TOGETHER;
    const look = { first: !joins(before), last: !joins(after), chat, on: this.on(this) };
    const seen = group.flatMap((one) => [foundSign(one), findableSign(one), quotedIn(one)]);
    const sign = JSON.stringify([group, look.first, look.last, chat.can_post, ...seen]);
    return { key: `m${here.message_id}`, sign, build: () => bubble(group, look) };
  }

  passing() {
    const here = (one) => one.chat === this.chat;
    const drafts = alive(store.drafts).filter(here);
    const typing = alive(store.actions).some(here) && !drafts.length;
    const row = (draft) => ({ key: `draft ${draft.id}`, sign: JSON.stringify(draft), build: () => this.draft(draft) });
    const dots = () => make("div", { class: "bubble" }, make("i"), make("i"), make("i"));
    const build = () => make("div", { class: "message theirs typing", "aria-hidden": "true" }, dots());
    return [...drafts.map(row), ...(typing ? [{ key: "typing", sign: "typing", build }] : [])];
  }

  draft(draft) {
    const words = draft.rich_message ? richBlocks(draft.rich_message, this.on(this)) : draft.text
      ? shown(draft.text, draft.entities, this.on(this))
      : [make("span", { class: "thinking", text: say("thinking") })];
    const bubble = make("div", { class: "bubble" }, make("div", { class: "text", dir: "auto" }, ...words));
    const halt = { class: "stop", type: "button", onclick: () => act("stop", { draft: draft.id }) };
    const stop = draft.can_stop ? make("button", halt, icon("stop"), say("stop")) : null;
    const data = { draft: draft.id };
    return make("div", { class: "message theirs draft", data }, make("div", { class: "column" }, bubble, stop));
  }

  empty(chat) {
    const kind = chat.is_bot ? "emptyChat" : chat.type === "channel" ? "emptyChannel" : "emptyGroup";
    const build = () => make("div", { class: "empty" }, avatar(chat, "large"),
      make("h2", { text: say(kind, store.bot.username) }), make("p", { text: say(`${kind}Hint`, store.bot.username) }),
      chat.is_bot ? this.suggestions() : null);
    return { key: "empty", sign: kind, build };
  }

  // Buttons with questions that the posts answer: those not asked yet come first.
  suggestions() {
    const asked = new Set([...messagesOf(this.chat).values()].map(textOf));
    const fresh = store.questions.filter((one) => !asked.has(one));
    const offered = [...new Set([...fresh, ...store.questions])].slice(0, SUGGESTED);
    const one = (text) => make("button", { class: "suggestion", type: "button", text, onclick: () => this.composer.send(text) });
    const labels = { class: "suggestions", role: "group", "aria-label": say("trySome") };
    return offered.length ? make("div", labels, ...offered.map(one)) : null;
  }

  renderHead(chat) {
    const typing = alive(store.actions).some((one) => one.chat === this.chat);
    const members = counted(chat.members, chat.type === "channel" ? "subscribers" : "members");
    const known = chat.is_bot ? say("bot") : [chat.username && `@${chat.username}`, members].filter(Boolean).join(" · ");
    const under = typing ? say("typing") : known;
    const sign = JSON.stringify([chat, under]);
    if (this.headSign === sign) return;
    this.headSign = sign;
    this.scroll.setAttribute("aria-label", chat.title);
    this.list.setAttribute("aria-label", chat.title);
    this.head.replaceChildren(
      button("back", say("back"), () => this.on(this).back(), "round back"),
      avatar(chat),
      make("div", { class: "names" },
        make(this.aside ? "h2" : "h1", { text: chat.title }), make("p", { class: typing ? "live" : "", text: under })),
      this.aside ? button("open", say("open"), () => this.on(this).inMain(chat.id)) : "",
      this.aside ? button("close", say("close"), () => this.on(this).back(), "round shut") : "");
  }

  renderFoot(chat, begun) {
    if (this.aside) return;
    if (!chat.can_post) return this.foot.replaceChildren(make("p", { class: "readonly", text: say("readOnly") }));
    this.composer ??= composer(this, chat);
    if (this.foot.firstChild !== this.composer.element) this.foot.replaceChildren(this.composer.element);
    this.composer.refresh(chat, chat.is_bot && begun ? this.suggestions() : null);
  }
}
