// Translations: all sentences of the page in English and Russian, and date and number formats.

const WORDS = {
  back: ["Back", "Назад"],
  bot: ["bot", "бот"],
  cancel: ["Cancel", "Отменить"],
  close: ["Close", "Закрыть"],
  closed: ["This channel is private: you are not a member.", "Это закрытый канал, вы в нём не состоите."],
  commands: ["Commands", "Команды"],
  copied: ["Link copied", "Ссылка скопирована"],
  copy: ["Copy link", "Скопировать ссылку"],
  deleted: ["This post is not there any more.", "Этого поста больше нет."],
  document: ["Document", "Документ"],
  edit: ["Edit", "Изменить"],
  edited: ["edited", "изменено"],
  onlyYou: ["only you see this", "видите только вы"],
  editing: ["Editing", "Редактирование"],
  emptyChannel: ["No posts yet", "Постов пока нет"],
  emptyChannelHint: [
    "What you post here reaches the bot at once.",
    "Всё, что вы здесь напишете, сразу увидит бот.",
  ],
  emptyChat: ["Ask the channels", "Спросите у каналов"],
  emptyChatHint: [
    "Each number in an answer opens the post it comes from.",
    "Каждый номер в ответе открывает пост, откуда он взят.",
  ],
  emptyGroup: ["Ask with /ask@", "Спросите через /ask@"],
  emptyGroupHint: [
    "Or mention @, or reply to the bot. Otherwise it stays silent here.",
    "Или упомяните @, или ответьте на сообщение бота. Иначе он здесь молчит.",
  ],
  forward: ["Forward to the bot", "Переслать боту"],
  forwarded: ["Forwarded from", "Переслано от"],
  forwardedDone: ["Forwarded to the bot", "Переслано боту"],
  joined: ["joined", "теперь в группе"],
  language: ["Language", "Язык"],
  howFound: ["How it was found", "Как это найдено"],
  indexed: ["Indexed · searchable", "Проиндексировано · можно искать"],
  indexing: ["Indexing …", "Индексируется …"],
  left: ["left", "больше не в группе"],
  findable: ["findable", "уже находится"],
  findableByMeaning: ["found by meaning, by words soon", "находится по смыслу, скоро и по словам"],
  findableByWords: ["found by words, by meaning soon", "находится по словам, скоро и по смыслу"],
  less: ["Show less", "Свернуть"],
  leads: ["an admin", "админ"],
  legBoth: ["has words of your question, and is like it", "есть слова из вопроса, и похоже на него"],
  legDense: ["found by likeness, may be about something else", "похоже, но может быть о другом"],
  legLexical: ["has words of your question", "есть слова из вопроса"],
  legNone: ["looked up directly, without a search", "найдено напрямую, без поиска"],
  lost: ["No connection. Trying again …", "Нет соединения. Пробуем ещё раз …"],
  message: ["Message", "Сообщение"],
  note: ["Note", "Сноска"],
  more: ["Show more", "Показать полностью"],
  newest: ["To the newest", "К последним"],
  noChats: ["No such chat", "Такого чата нет"],
  notCited: ["Also found, not cited", "Тоже найдено, но не цитируется"],
  ok: ["OK", "Хорошо"],
  open: ["Open channel", "Открыть канал"],
  photo: ["Photo", "Фотография"],
  attach: ["Attach a picture, a recording or a document", "Прикрепить картинку, запись или документ"],
  post: ["Write a post", "Написать пост"],
  readOnly: ["You read this channel", "Вы читаете этот канал"],
  reads: ["a reader", "читатель"],
  remove: ["Delete", "Удалить"],
  reply: ["Reply", "Ответить"],
  replyTo: ["Reply to", "В ответ"],
  search: ["Search", "Поиск"],
  send: ["Send", "Отправить"],
  silence: ["The bot did not answer the button.", "Бот не ответил на нажатие."],
  become: ["Switch to", "Перейти:"],
  stop: ["Stop", "Остановить"],
  theme: ["Colours", "Цвета"],
  themeAuto: ["Auto", "Авто"],
  themeDark: ["Dark", "Тёмные"],
  themeLight: ["Light", "Светлые"],
  thinking: ["Thinking …", "Думает …"],
  trySome: ["Questions to try", "Можно спросить"],
  today: ["Today", "Сегодня"],
  typing: ["typing …", "печатает …"],
  via: ["via", "через"],
  yesterday: ["Yesterday", "Вчера"],
  you: ["You", "Вы"],
  youAre: ["You are", "Вы"],
};

const COUNTED = {
  changesToGo: {
    en: { one: "change to go", other: "changes to go" },
    ru: { one: "изменение осталось", few: "изменения осталось", many: "изменений осталось", other: "изменения осталось" },
  },
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

// Stored choices (language, colours, ...): from the URL, else from an earlier visit.
export const chosen = {
  get: (name) => asked.get(name) ?? localStorage.getItem(`citegram.${name}`),
  set(name, value) {
    asked.delete(name);
    localStorage.setItem(`citegram.${name}`, value);
  },
};

export let lang = "en";
let locale = "en-GB"; // dates as the bot writes them

export function useLanguage(code) {
  lang = (code ?? navigator.language ?? "en").toLowerCase().startsWith("ru") ? "ru" : "en";
  locale = lang === "ru" ? "ru" : "en-GB";
  document.documentElement.lang = lang;
}

export const say = (key, bot = "") => WORDS[key][lang === "ru" ? 1 : 0].replace("@", `@${bot}`);

export function counted(number, key) {
  const forms = COUNTED[key][lang];
  const form = forms[new Intl.PluralRules(lang).select(number)] ?? forms.other;
  return `${new Intl.NumberFormat(lang).format(number)} ${form}`;
}

// Times are those of a zone: undefined is that of the browser.
const inZone = (zone, style) => ({ ...style, timeZone: zone ?? undefined });
const date = (seconds, style, zone) => // without the "г." of Russian years, as the bot writes them
  new Date(seconds * 1000).toLocaleDateString(locale, inZone(zone, style)).replace(/\sг\.$/, "");

export const clock = (seconds, zone) =>
  new Date(seconds * 1000).toLocaleTimeString(locale, inZone(zone, { hour: "2-digit", minute: "2-digit", hour12: false }));
export const dayKey = (seconds, zone) => new Date(seconds * 1000).toLocaleDateString("en-CA", inZone(zone));
export const fully = (seconds, zone) =>
  new Date(seconds * 1000).toLocaleString(locale, inZone(zone, { dateStyle: "long", timeStyle: "short" }));
export const wholeDate = (seconds, zone) => date(seconds, { day: "numeric", month: "long", year: "numeric" }, zone);

const daysAgo = (seconds, zone) =>
  Math.round((Date.parse(dayKey(Date.now() / 1000, zone)) - Date.parse(dayKey(seconds, zone))) / 864e5);

const isThisYear = (seconds, zone) =>
  dayKey(seconds, zone).slice(0, 4) === dayKey(Date.now() / 1000, zone).slice(0, 4);

export function day(seconds, zone) {
  const ago = daysAgo(seconds, zone);
  if (ago === 0) return say("today");
  if (ago === 1) return say("yesterday");
  return isThisYear(seconds, zone) ? date(seconds, { day: "numeric", month: "long" }, zone) : wholeDate(seconds, zone);
}

export function shortly(seconds, zone) {
  const ago = daysAgo(seconds, zone);
  if (ago === 0) return clock(seconds, zone);
  if (ago > 0 && ago < 7) return date(seconds, { weekday: "short" }, zone);
  const style = isThisYear(seconds, zone) ? { day: "numeric", month: "short" } : { month: "short", year: "numeric" };
  return date(seconds, style, zone);
}
