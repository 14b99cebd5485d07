"""Contact questions: how to reach those who run a channel, and where they are: "where do I send you a photo".

They speak to "you", or of the channel; whoever asks for the address of another thing asks for a fact.
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


_WRITE_RU = (
    r"связаться|связь|(?:на)?писать|(?:при)?слать|присылать|(?:с|за)?кинуть|отправ(?:ить|лять)|сообщ(?:ить|ать)|обра(?:титься|щаться)|"
    r"предлож(?:ить|ать)|(?:по)?жаловаться|(?:по|до)?звон(?:ить|иться)|разместить|дать (?:рекламу|объявление)"
)
_WRITE_EN = r"contact|reach|get (?:in touch|hold)|message|write|e-?mail|text|call|ring|phone|send|submit|report|complain|advertise|place an ad"
_ASKED = {
    ContactKind.WRITE: re.compile(
        rf"(?<!\w)(?:(?:как|куда|где|кому|на какой адрес)(?: [\w-]+){{0,5}}? (?:{_WRITE_RU})|контакты|как с вами|по какому номеру (?:вам |к вам |можно ){{0,2}}(?:по)?звонить|"
        r"(?:телефон|номер телефона|почта|мейл|имейл|ник|телеграм\w*|телега)(?: [\w-]+){0,2} (?:у вас|ваш\w*|для связи)|"
        r"(?:у вас|ваш\w?)(?: (?:есть|какой|какая|рабочий|контактный)){0,2} (?:телефон\w*|номер телефона|почт\w|мейл|имейл|ник|телеграм\w*)|какой у вас номер|ваш номер|"
        rf"(?:how (?:do|can|could|should|to)|where (?:do|can|could|should|to)|who (?:do|can|should|to))(?: (?:i|we|one|people))? (?:{_WRITE_EN})|can i (?:write|call|text|message) (?:to )?you|"
        r"your (?:contacts?|e-?mail|handle|phone(?: number)?)(?: (?:details|info))?|do you have an? (?:phone|e-?mail|number)|is there an? (?:phone|e-?mail|number)(?= (?:[\w-]+ ){0,4}(?:you|to|i can)\b)|contact (?:details|info))(?!\w)"
    ),
    ContactKind.PLACE: re.compile(
        r"(?<!\w)(?:где (?:[\w-]+ ){0,3}?(?:находитесь|вас найти|расположены|сидите|базируетесь|обитаете)|(?:как|где) (?:[\w-]+ )?вас найти|(?:какой )?(?:у вас|ваш) (?:точный )?адрес|адрес у вас|"
        r"куда к вам (?:приходить|прийти|приезжать|приехать|подойти|подъехать)|как (?:к вам |до вас )(?:[\w-]+ )?(?:добраться|доехать|проехать|попасть|дойти)|где вы|вы где|"
        r"where (?:are|r) (?:you|u)|your address|do you have an address|where (?:can|do|could) (?:i|we) find you)(?!\w)"
    ),
}
_PHONE_ASKED = re.compile(r"(?<!\w)(?:телефон\w*|номер\w*|(?:по|до)?звонить(?:ся)?|phone|call|ring|number)(?!\w)")
# Somebody else is meant, whom only the question before names.
_OTHERS = re.compile(
    r"(?<!\w)(?:he|him|his|she|hers?|they|them|their|it|его|ему|нему|него|ее|ей|ней|нее|их|им|ним|ними|них)(?!\w)"
)
# Words beside them that name no other thing: "куда вам новость скинуть".
_FILLERS = re.compile(
    rf"(?<!\w)(?:{_WRITE_RU}|{_WRITE_EN}|вы|вас|вам|вами|ваш\w*|а|и|ну|мне|нам|мы|я|можно|нужно|надо|если|есть|что|чего|кой|то|чтобы|хочу|хотим|какой|какая|какие|какому|где|куда|как|кому|это|тут|там|здесь|сейчас|сегодня|завтра|"
    r"вообще|у|к|с|в|на|по|для|до|новост\w*|видео\w*|фото\w*|реклам\w*|объявлени\w*|заказ\w*|вопрос\w*|отзыв\w*|предложени\w*|сообщени\w*|жалоб\w*|канал\w*|редакци\w*|админ\w*|автор\w*|плиз|пожалуйста|"
    r"подскажите|подскажи|скажите|точный|люди|ребят\w*|привет|здравствуйте|контакты?|телефон\w*|номер\w*|почт[аеуы]|мейл|имейл|ник|телеграм\w*|телега|рабочий|контактный|находитесь|найти|расположены|сидите|"
    r"базируетесь|обитаете|адрес\w*|приходить|прийти|приезжать|приехать|подойти|подъехать|добраться|доехать|проехать|попасть|дойти|"
    r"you|your|yours|guys|u|what|whats|where|who|how|when|is|are|r|do|does|can|could|should|i|we|to|a|an|the|at|in|on|of|for|in touch|with|exactly|located|based|now|these days|today|there|here|any|if|have|has|got|"
    r"news|video|photo|pics?|story|tip|info|ads?|order|question|feedback|complaint|channel|admins?|editor|author|please|pls|hi|hey|hello|someone|number|i've|shot|contacts?|get|touch|hold|place|address|find|details|handle)(?!\w)"
)
_MAX_LENGTH = 160  # characters


def detect_contact_kind(asked: str) -> ContactKind | None:
    """Detect what a question asks of those who run a channel; `asked` is in lower case, without ё. None: nothing."""
    if len(asked) > _MAX_LENGTH or _OTHERS.search(asked):
        return None
    kind = next((kind for kind, pattern in _ASKED.items() if pattern.search(asked)), None)
    if kind is None or tokenize(_FILLERS.sub(" ", asked)):
        return None
    return ContactKind.PHONE if kind is ContactKind.WRITE and _PHONE_ASKED.search(asked) else kind
