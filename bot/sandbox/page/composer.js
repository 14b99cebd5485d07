// Composer: write a message, a post or an inline query ("@bot question"), or edit what was written.

import { authorOf, isOwn, summary, textOf } from "./bubble.js";
import { button, icon, make, toast } from "./dom.js";
import { act, idsOf, messagesOf, store } from "./store.js";
import { say } from "./translations.js";

const INLINE_PAUSE = 350; // ms without a key before the bot is asked

export function composer(pane, chat) {
  let editing = null, replying = null, picked = 0;
  let inline = { text: "", options: [] }, pause = 0; // the inline query that was typed last, and the bot's articles
  const asks = say(chat.type === "channel" ? "post" : "message");
  const area = make("textarea", { id: "composer", rows: "1", "aria-label": asks, "aria-controls": "commands", placeholder: asks });
  const labels = { "aria-label": say("send"), title: say("send") };
  const send = make("button", { id: "send", class: "send", type: "submit", ...labels }, icon("send"));
  const commands = make("div", { id: "commands", class: "commands", role: "listbox", "aria-label": say("commands"), hidden: true });
  const offered = make("div", {});
  const context = make("div", { class: "context", hidden: true });
  const slash = button("slash", say("commands"), () => {
    area.value = area.value.startsWith("/") ? "" : "/";
    area.focus();
    typed();
  }, "round slash");
  const chosen = make("input", { type: "file", hidden: true, onchange: () => chosen.files[0] && sendFile(chosen.files[0]) });
  const attach = button("clip", say("attach"), () => chosen.click(), "round slash");
  const form = make("form", { class: "composer" }, chat.type === "channel" ? attach : slash, chosen, area, send);
  const element = make("div", {}, commands, context, offered, form);

  // What the text offers to choose from: the bot's commands, or the articles of an inline query.
  const matching = () => {
    const text = area.value;
    if (inlineText()) return inline.text === inlineText() ? inline.options : [];
    if (!chat.is_bot || !text.startsWith("/") || /\s/.test(text)) return [];
    return store.commands.filter((one) => one.command.startsWith(text.slice(1).toLowerCase())).map((one) => ({
      title: `/${one.command}`, description: one.description, kind: "", choose: () => sendText(`/${one.command}`),
    }));
  };

  const inlineText = () => {
    const name = `@${store.bot.username} `.toLowerCase();
    return !editing && area.value.toLowerCase().startsWith(name) ? area.value.slice(name.length).trim() : "";
  };

  async function askInline(text) {
    const told = await act("inline", { text });
    if (text !== inlineText()) return;
    const { results = [], button: toBot } = told?.answer ?? {};
    const options = results.map((one) => ({
      title: one.title, description: one.description, kind: " article",
      choose: () => sent(act("choose", { chat: chat.id, query: told.query, result: one.id }, toast)),
    }));
    if (toBot) options.push({ title: toBot.text, description: "", kind: " article", choose: () => askBot(toBot) });
    inline = { text, options };
    typed();
  }

  async function askBot(toBot) {
    const whole = { chat: store.user, text: `/start ${toBot.start_parameter}` };
    if (await sent(act("say", whole, toast))) pane.on(pane).inMain(store.user);
  }

  function typed() {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 180)}px`;
    send.disabled = !area.value.trim();
    const query = inlineText();
    if (query && query !== inline.text) {
      clearTimeout(pause);
      pause = setTimeout(askInline, INLINE_PAUSE, query);
    }
    const found = matching();
    picked = Math.max(0, Math.min(picked, found.length - 1));
    commands.hidden = !found.length;
    offered.hidden = found.length > 0;
    area.setAttribute("aria-activedescendant", found.length ? `command${picked}` : "");
    commands.replaceChildren(...found.map((one, index) => make("button", {
      id: `command${index}`, class: `option${one.kind}`, type: "button", role: "option",
      "aria-selected": String(index === picked), onclick: one.choose,
    }, make("b", { text: one.title, dir: "auto" }), make("span", { text: one.description, dir: "auto" }))));
  }

  function hold(kind, message) {
    editing = kind === "editing" ? message : null;
    replying = kind === "replyTo" ? message : null;
    context.hidden = !kind;
    if (!kind) return;
    const words = kind === "editing" ? summary(message) : `${authorOf(message)}: ${summary(message)}`;
    context.replaceChildren(icon(kind === "editing" ? "edit" : "reply"),
      make("div", {}, make("b", { text: say(kind) }), make("span", { text: words })),
      button("close", say("cancel"), cancel));
    if (kind === "editing") area.value = textOf(message);
    area.focus();
    typed();
  }

  function cancel() {
    if (editing) area.value = "";
    hold(null);
    typed();
  }

  async function sendText(text) {
    const place = { chat: chat.id, text };
    if (editing) return sent(act("edit", { ...place, message: editing.message_id }, toast));
    if (chat.type === "channel") return sent(act("post", place, toast));
    return sent(act("say", { ...place, reply_to: replying?.key ?? replying?.message_id ?? null }, toast));
  }

  async function sendFile(file) {
    const read = new FileReader();
    read.onload = () => {
      const data = read.result.slice(read.result.indexOf(",") + 1);
      sent(act("post", { chat: chat.id, text: area.value.trim(), file: { name: file.name, data } }, toast));
      chosen.value = "";
    };
    read.readAsDataURL(file);
  }

  // Clear the composer once something has been sent, but not what was typed meanwhile.
  async function sent(sending) {
    const before = area.value;
    const done = await sending;
    if (!done) return null;
    if (area.value === before) area.value = "";
    hold(null);
    typed();
    return done;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (area.value.trim()) sendText(area.value);
  });
  area.addEventListener("input", typed);
  area.addEventListener("keydown", (event) => {
    const found = matching();
    if (event.key === "Escape") cancel();
    else if (found.length && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      picked = (picked + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
      event.preventDefault();
      typed();
    } else if (found.length && event.key === "Tab" && !inlineText()) {
      area.value = `${found[picked].title} `;
      event.preventDefault();
      typed();
    } else if (event.key === "ArrowUp" && !area.value) {
      const mine = (one) => (chat.type === "channel" || isOwn(one)) && textOf(one);
      const last = idsOf(chat.id).map((id) => messagesOf(chat.id).get(id)).findLast(mine);
      if (last) hold("editing", last);
      event.preventDefault();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (found.length && inlineText()) found[picked].choose();
      else form.requestSubmit();
    }
  });
  typed();

  return {
    element, edit: (message) => hold("editing", message), reply: (message) => hold("replyTo", message), send: sendText,
    focus: () => area.focus({ preventScroll: true }),
    inline(query) {
      area.value = `@${store.bot.username} ${query}`;
      area.focus();
      typed();
    },
    refresh(now, suggestions) {
      chat = now;
      if (offered.textContent !== (suggestions?.textContent ?? "")) offered.replaceChildren(suggestions ?? "");
      slash.hidden = !chat.is_bot || !store.commands.length;
    },
  };
}
