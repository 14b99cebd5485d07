// Client state of the sandbox, updated by long polling.

export const store = {
  n: 0, run: null, user: 0, bot: null, online: true,
  people: [], commands: [], questions: [], drafts: [], actions: [],
  chats: new Map(), messages: new Map(), loaded: new Set(), unread: new Map(),
  insights: new Map(), found: new Map(), findable: {}, indexing: {},
  zone: null, // of the channels; other times are those of the browser
  quoted: null, // target of a clicked quote: {chat, message, text, position}
};

const watchers = new Set();
export const watch = (watcher) => watchers.add(watcher);
const tell = (fresh = []) => watchers.forEach((watcher) => watcher(fresh));

let turn = new AbortController();

// Reload the state as another user.
export function become(user) {
  Object.assign(store, { n: 0, user, drafts: [], actions: [], commands: [], questions: [], findable: {} });
  for (const kept of [store.chats, store.messages, store.loaded, store.unread, store.insights]) kept.clear();
  turn.abort();
  turn = new AbortController();
  follow(turn.signal);
}

async function follow(signal) {
  while (!signal.aborted) {
    try {
      const answer = await fetch(`/sandbox/state?since=${store.n}&user=${store.user}`, { signal });
      if (!answer.ok) throw new Error(answer.statusText);
      const news = await answer.json();
      if (signal.aborted) return;
      if (store.run && store.run !== news.run) return location.reload();
      take(news);
    } catch (error) {
      if (signal.aborted) return;
      store.online = false;
      tell();
      await new Promise((done) => setTimeout(done, 1200));
    }
  }
}

function take(news) {
  const first = store.n === 0;
  Object.assign(store, { n: news.n, run: news.run, bot: news.me.bot, zone: news.zone, online: true });
  Object.assign(store, { people: news.people, commands: news.commands, questions: news.questions });
  Object.assign(store, { findable: news.findable, indexing: news.indexing });
  for (const [question, found] of Object.entries(news.insights)) store.insights.set(question, found);
  store.drafts = passing(news.drafts);
  store.actions = passing(news.actions);
  store.chats.clear();
  for (const chat of news.chats) store.chats.set(chat.id, chat.type === "private" ? asBot(chat) : chat);
  const fresh = news.messages.map(keep).filter(Boolean);
  matchAnswers();
  tell(first ? [] : fresh);
}

// The answer to a question is the bot's first message after it that replies to it, or to nothing.
function matchAnswers() {
  store.found.clear();
  const answers = (message, asked) =>
    message.from?.id === store.bot.id && (message.reply_to_message?.message_id ?? asked) === asked;
  const questions = [...store.insights.keys()].map((key) => key.split("/").map(Number)).sort((a, b) => a[1] - b[1]);
  for (const [chat, asked] of questions) {
    const free = (id) => id > asked && !store.found.has(`${chat}/${id}`) && answers(messagesOf(chat).get(id), asked);
    const answer = idsOf(chat).find(free);
    if (answer) store.found.set(`${chat}/${answer}`, store.insights.get(`${chat}/${asked}`));
  }
}

const asBot = (chat) => ({ ...chat, title: store.bot.first_name, username: store.bot.username, is_bot: true });

// Drafts and "typing" expire.
function passing(list) {
  for (const one of list) setTimeout(tell, Math.max(0, one.left) * 1000 + 50);
  return list.map((one) => ({ ...one, ends: Date.now() + one.left * 1000 }));
}
export const alive = (list) => list.filter((one) => one.ends > Date.now());

function keep(message) {
  const chat = message.chat.id;
  if (!store.messages.has(chat)) store.messages.set(chat, new Map());
  const kept = store.messages.get(chat);
  if (message.deleted) {
    kept.delete(message.message_id);
    return null;
  }
  const isNew = !kept.has(message.message_id) && !message.edit_date;
  kept.set(message.message_id, message);
  return isNew ? message : null;
}

// Load all posts of a chat; the state only contains the last one and changes.
export async function load(chat) {
  if (store.loaded.has(chat)) return;
  const user = store.user;
  const answer = await fetch(`/sandbox/messages?chat=${chat}&user=${user}`);
  if (!answer.ok || user !== store.user) return;
  (await answer.json()).messages.forEach(keep);
  store.loaded.add(chat);
  matchAnswers();
  tell();
}

export const zoneOf = (chat) => (chat.type === "channel" ? store.zone : null);
export const messagesOf = (chat) => store.messages.get(chat) ?? new Map();
export const idsOf = (chat) => [...messagesOf(chat).keys()].sort((a, b) => a - b);
export function lastOf(chat) {
  const ids = idsOf(chat);
  return ids.length ? messagesOf(chat).get(ids[ids.length - 1]) : null;
}

// Entity that marks the quoted text, if the message still contains it.
export function quotedIn(message) {
  const { chat, message: id, text, position: offset } = store.quoted ?? {};
  const whole = message.text ?? message.caption ?? "";
  const here = chat === message.chat.id && id === message.message_id && whole.startsWith(text, offset);
  return here ? [{ type: "quoted", offset, length: text.length }] : [];
}

// Run an action as the current user; returns the result, or null with the reason in `failed`.
export async function act(deed, body, failed) {
  try {
    const answer = await fetch(`/sandbox/${deed}`, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ user: store.user, ...body }),
    });
    const told = await answer.json();
    if (told.ok) return told.result;
    failed?.(told.description);
  } catch (error) {
    failed?.(error.message);
  }
  return null;
}

// The chat and post behind a t.me link: {chat, message}. No chat: a private channel that the user cannot see;
// no message: the channel itself. null: not a link to anything here.
export function postBehind(url) {
  if (!["t.me", "telegram.me"].includes(url.hostname)) return null;
  const parts = url.pathname.split("/").filter(Boolean);
  const secret = parts[0] === "c", id = Number(parts.at(-1));
  const message = parts.length > (secret ? 2 : 1) && Number.isInteger(id) ? id : null;
  if (secret) return { chat: store.chats.get(Number(`-100${parts[1]}`)) ?? null, message };
  const name = parts[0]?.toLowerCase();
  const chat = [...store.chats.values()].find((one) => one.username?.toLowerCase() === name);
  return chat ? { chat, message } : null;
}
