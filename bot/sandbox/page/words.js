// Every sentence of the page, in English and Russian, and how it writes dates and numbers.

const WORDS = {
  back: ["Back", "Назад"],
  bot: ["bot", "бот"],
  cancel: ["Cancel", "Отменить"],
  channel: ["channel", "канал"],
  close: ["Close", "Закрыть"],
  closed: ["This channel is private: you are not a member.", "Это закрытый канал, вы в нём не состоите."],
  commands: ["Commands", "Команды"],
  copied: ["Link copied", "Ссылка скопирована"],
  copy: ["Copy link", "Скопировать ссылку"],
  deleted: ["This post is not there any more.", "Этого поста больше нет."],
  document: ["Document", "Документ"],
  edit: ["Edit", "Изменить"],
  edited: ["edited", "изменено"],
  editing: ["Editing", "Редактирование"],
  emptyChannel: ["No posts yet", "Постов пока нет"],
  emptyChannelHint: [
    "What you post here reaches the bot at once.",
    "Всё, что вы здесь напишете, сразу увидит бот.",
  ],
  emptyChat: ["Ask about your channels", "Спросите о своих каналах"],
  emptyChatHint: [
    "Every sentence of an answer opens the post that it stands on.",
    "Каждое предложение ответа открывает пост, на котором оно стоит.",
  ],
  emptyGroup: ["No messages yet", "Сообщений пока нет"],
  emptyGroupHint: [
    "The bot answers to /ask, to a mention and to replies.",
    "Бот отвечает на /ask, упоминание и ответы на его сообщения.",
  ],
  forward: ["Forward to the bot", "Переслать боту"],
  forwarded: ["Forwarded from", "Переслано от"],
  forwardedDone: ["Forwarded to the bot", "Переслано боту"],
  group: ["group", "группа"],
  joined: ["joined", "теперь в группе"],
  language: ["Language", "Язык"],
  left: ["left", "больше не в группе"],
  less: ["Show less", "Свернуть"],
  lost: ["No connection. Trying again …", "Нет соединения. Пробуем ещё раз …"],
  message: ["Message", "Сообщение"],
  more: ["Show more", "Показать полностью"],
  newest: ["To the newest", "К последним"],
  ok: ["OK", "Хорошо"],
  open: ["Open channel", "Открыть канал"],
  photo: ["Photo", "Фотография"],
  pinned: ["pinned", "закреплено"],
  poll: ["Poll", "Опрос"],
  post: ["Write a post", "Написать пост"],
  private: ["private channel", "закрытый канал"],
  readOnly: ["You read this channel", "Вы читаете этот канал"],
  reply: ["Reply", "Ответить"],
  replyTo: ["Reply to", "В ответ"],
  send: ["Send", "Отправить"],
  silence: ["The bot did not answer the button.", "Бот не ответил на нажатие."],
  start: ["Start", "Начать"],
  stop: ["Stop", "Остановить"],
  theme: ["Colours", "Цвета"],
  themeAuto: ["Auto", "Авто"],
  themeDark: ["Dark", "Тёмные"],
  themeLight: ["Light", "Светлые"],
  thinking: ["Thinking …", "Думает …"],
  topic: ["Topic created:", "Создана тема:"],
  today: ["Today", "Сегодня"],
  typing: ["typing …", "печатает …"],
  user: ["You are", "Вы"],
  yesterday: ["Yesterday", "Вчера"],
  you: ["You", "Вы"],
};

const COUNTED = {
  members: {
    en: { one: "member", other: "members" },
    ru: { one: "участник", few: "участника", many: "участников", other: "участника" },
  },
  subscribers: {
    en: { one: "subscriber", other: "subscribers" },
    ru: { one: "подписчик", few: "подписчика", many: "подписчиков", other: "подписчика" },
  },
};

const asked = new URLSearchParams(location.search);

// What was chosen: by the address, else on an earlier visit.
export const chosen = {
  get: (name) => asked.get(name) ?? localStorage.getItem(`citegram.${name}`),
  set(name, value) {
    asked.delete(name);
    localStorage.setItem(`citegram.${name}`, value);
  },
};

export let lang = "en";

export function useLanguage(code) {
  lang = (code ?? navigator.language ?? "en").toLowerCase().startsWith("ru") ? "ru" : "en";
  document.documentElement.lang = lang;
}

export const say = (key) => WORDS[key][lang === "ru" ? 1 : 0];

export function counted(number, key) {
  const forms = COUNTED[key][lang];
  const form = forms[new Intl.PluralRules(lang).select(number)] ?? forms.other;
  return `${new Intl.NumberFormat(lang).format(number)} ${form}`;
}

export const compact = (number) => new Intl.NumberFormat(lang, { notation: "compact" }).format(number);

const date = (seconds) => new Date(seconds * 1000);
const daysAgo = (then, now) =>
  Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(then).setHours(0, 0, 0, 0)) / 864e5);

const HOURS = { hour: "2-digit", minute: "2-digit", hour12: false };

export const clock = (seconds) => date(seconds).toLocaleTimeString(lang, HOURS);
export const dayKey = (seconds) => date(seconds).toDateString();
export const fully = (seconds) => date(seconds).toLocaleString(lang, { dateStyle: "long", timeStyle: "short" });

export function day(seconds) {
  const then = date(seconds), now = new Date(), ago = daysAgo(then, now);
  if (ago === 0) return say("today");
  if (ago === 1) return say("yesterday");
  const year = then.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return then.toLocaleDateString(lang, { day: "numeric", month: "long", ...year });
}

export function shortly(seconds) {
  const then = date(seconds), now = new Date(), ago = daysAgo(then, now);
  if (ago === 0) return clock(seconds);
  if (ago > 0 && ago < 7) return then.toLocaleDateString(lang, { weekday: "short" });
  return then.toLocaleDateString(lang, { day: "2-digit", month: "2-digit", year: "2-digit" });
}
