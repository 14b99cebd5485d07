"""Contact questions: how to reach those who run a channel, and where they are: "where do I send you a photo".

What is left without the words that ask so describes a channel ("the address of the bakery"), or is empty.
"""

from __future__ import annotations

import re
from enum import StrEnum

from rag_core.text.tokens import tokenize


class ContactKind(StrEnum):
    """What is asked of those who run a channel."""

    WRITE = "write"
    PHONE = "phone"
    PLACE = "place"


_YOU = r"(?:вы|вас|вам|вами|ваш\w*|you|your|yours|guys|u)"
_ASKED = {
    ContactKind.WRITE: re.compile(
        r"(?<!\w)(?:(?:как|куда|где|кому|на какой адрес)(?: [\w-]+){0,5}? (?:связаться|связь|(?:на)?писать|(?:при)?слать|присылать|(?:с|за)?кинуть|отправ(?:ить|лять)|"
        r"сообщ(?:ить|ать)|обра(?:титься|щаться)|предлож(?:ить|ать)|пожаловаться|позвонить|звонить|разместить|дать (?:рекламу|объявление))|контакты?|(?:по|на) как(?:ой|ому) номер\w*|"
        r"(?:телефон|номер|почта|мейл|имейл|ник|телеграм\w*|телега)(?: [\w-]+){0,2} (?:у вас|ваш\w*|для связи)|(?:у вас|ваш\w?)(?: [\w-]+){0,2} (?:телефон\w*|номер\w*|почт\w|мейл|имейл|ник)|"
        r"(?:how|where|who)(?: [\w-]+){0,2} (?:i|we|one|people) (?:contact|reach|get (?:in touch|hold)|message|write|e-?mail|text|call|ring|phone|send|submit|report|complain|advertise|place an ad)|"
        r"(?:your|the|any|an?) (?:contacts?|e-?mail|handle|phone(?: number)?)(?: (?:details|info))?|do you have an? (?:phone|e-?mail|number)|"
        r"(?:a|any|the) number to (?:ring|call|text))(?!\w)"
    ),
    ContactKind.PLACE: re.compile(
        r"(?<!\w)(?:где (?:[\w-]+ ){0,3}?(?:находитесь|вас найти|расположены|сидите|базируетесь|обитаете)|(?:как|где) (?:[\w-]+ )?вас найти|(?:какой |ваш |у вас )*адрес|"
        r"куда (?:к вам )?(?:приходить|прийти|приезжать|приехать|подойти|подъехать)|как (?:к вам |до вас )(?:[\w-]+ )?(?:добраться|доехать|проехать|попасть|дойти)|где (?:вы|находится|расположен\w?)|"
        r"where (?:are|r) (?:you|u)|(?:what's|whats|what is) (?:your|the) address|(?:your|the) address|where (?:can|do|could) (?:i|we) find|where(?:'s|s| is) the)(?!\w)"
    ),
}
_PHONE_ASKED = re.compile(r"(?<!\w)(?:телефон\w*|номер\w*|(?:по)?звонить|phone|call|ring|number)(?!\w)")
# Words beside them that name no other thing: "куда вам новость скинуть".
_FILLERS = re.compile(
    rf"(?<!\w)(?:{_YOU}|а|и|ну|мне|нам|мы|я|можно|нужно|надо|если|есть|что|чтобы|хочу|хотим|какой|какая|какие|где|куда|как|кому|это|тут|там|здесь|сейчас|сегодня|завтра|вообще|у|к|с|в|на|по|для|до|"
    r"новост\w*|видео\w*|фото\w*|реклам\w*|объявлени\w*|заказ\w*|вопрос\w*|отзыв\w*|предложени\w*|сообщени\w*|жалоб\w*|канал\w*|редакци\w*|админ\w*|автор\w*|плиз|пожалуйста|подскажите|подскажи|"
    r"скажите|точный|люди|ребят\w*|привет|здравствуйте|связ\w+|(?:на)?писать|(?:при)?слать|присылать|(?:с|за)?кинуть|отправ\w+|сообщ(?:ить|ать)|обра\w+ться|обращаться|предлож(?:ить|ать)|"
    r"пожаловаться|(?:по)?звонить|разместить|дать|контакты?|телефон\w*|номер\w*|почт[аеуы]|мейл|имейл|ник|телеграм\w*|телега|находитесь|найти|расположены|сидите|базируетесь|обитаете|адрес\w*|приходить|прийти|"
    r"приезжать|приехать|подойти|подъехать|добраться|доехать|проехать|попасть|дойти|"
    r"what|whats|where|who|how|when|is|are|r|do|does|can|could|should|i|we|to|a|an|the|at|in|on|of|for|in touch|with|exactly|located|based|now|these days|today|there|here|any|if|have|has|got|"
    r"news|video|photo|pics?|story|tip|info|ads?|order|question|feedback|complaint|message|channel|admins?|editor|author|please|pls|hi|hey|hello|someone|number|i've|shot|contacts?|reach|get|touch|hold|write|e-?mail|text|call|ring|phone|send|submit|report|complain|advertise|place|address|find|details|handle)(?!\w)"
)
_MAX_TOPIC_TERMS = 3
_MAX_LENGTH = 160  # characters


def parse_contact_question(asked: str) -> tuple[ContactKind, str] | None:
    """Parse a question for contacts: what is asked for, and the words that may describe a channel; None for another.

    `asked` is in lower case, without ё.
    """
    if len(asked) > _MAX_LENGTH:
        return None
    kind = next((kind for kind, pattern in _ASKED.items() if pattern.search(asked)), None)
    topic = " ".join(_FILLERS.sub(" ", asked).split()).strip(" ?!.,")
    if kind is None or len(tokenize(topic)) > _MAX_TOPIC_TERMS:
        return None
    return (ContactKind.PHONE if kind is ContactKind.WRITE and _PHONE_ASKED.search(asked) else kind), topic
