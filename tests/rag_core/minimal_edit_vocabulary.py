"""The words that minimal edits exchange: names of one kind in one form, months, words of number, antonyms, verbs."""

from __future__ import annotations

# Each row: names of one kind in one grammatical form, so that one may stand where another stood. A row may name
# what must follow or precede the name; `Россия` is never a new value, since so much is about it unsaid.
NAMES: dict[str, list[tuple[str, str, str]]] = {
    "ru": [
        (
            r"(?<=\b[вВ] )",
            "Москве Киеве Севастополе Подольске Ногинске Балашихе Люберцах Казани Новосибирске "
            "Екатеринбурге Лондоне Париже Берлине Красноярске Челябинске",
            "",
        ),
        (
            r"(?<=\b[вВ] )",
            "Германии Великобритании Франции Турции Грузии Израиле Японии Италии Абхазии Беларуси "
            "Австралии Индии Узбекистане Польше Китае Сирии Армении Бразилии Румынии Швеции Испании Венгрии Казахстане "
            "Таджикистане Иране Швейцарии России",
            "",
        ),
        (
            r"(?<![вВ] )(?<!во )",
            "Германии Великобритании Франции Турции Грузии Японии Италии Австралии Индии Сирии "
            "Армении Бразилии Румынии Швеции Испании Венгрии Швейцарии России",
            "",
        ),
        ("", "Китая Израиля Ирана Казахстана Узбекистана Таджикистана", ""),
        ("", "Google Apple Microsoft Intel Tesla SpaceX OpenAI Wildberries Ozon Яндекс", ""),
        ("", "Bloomberg Reuters Forbes", ""),
        ("", "Минфин Минпромторг Минздрав Минтранс Минюст Роспотребнадзор Роскомнадзор", ""),
        ("", "Минфина Минпромторга Минздрава Минтранса Минюста Роскомнадзора Росстата", ""),
        ("", "Сбер Газпромбанк Совкомбанк Росбанк Уралсиб", ""),
        ("", "Сбера Газпромбанка Совкомбанка Росбанка Альфа-Банка", ""),
        ("", "Домодедово Шереметьево Внуково", ""),
        ("", "Московской Тульской Калужской Тверской Брянской Белгородской Рязанской Запорожской", "(?= области)"),
        ("", "Марса Юпитера Сатурна Нептуна Плутона", ""),
        ("", "Марсе Юпитере Сатурне Венере", ""),
        ("", "Путин Трамп Байден Маск Собянин Песков Силуанов Решетников Мишустин Белоусов Володин", ""),
        ("", "Трампа Байдена Маска Зеленского Нетаньяху Набиуллиной", ""),
        ("", "Linux Windows Android", ""),
        ("", "Марта Соня Аделина Рита", ""),
        ("", "Глеб Тимур Паша Ярик Матвей Кофи", ""),
        (r"(?<=[Пп]о )", "Кирпичной Глиняной Обжиговой", ""),
        (r"(?<=[Нн]а )", "Кирпичной Глиняной Обжиговой", ""),
    ],
    "en": [
        ("", "Kofi|Tomasz|Farid|Danila", r"(?! [A-Z])"),
        ("", "Noor|Anna|Priya|Ilse", r"(?! [A-Z])"),
        ("", "Kofi Adjei|Tomasz Wilk|Timur Lazarev|Priya Raman|Noor Haddad|Ilse Brandt|Anna Beletskaya", ""),
        ("", "Saturn|Jupiter|Mars|Venus|Mercury", ""),
        ("", "Perseids|Geminids|Leonids|Lyrids|Quadrantids", ""),
        ("", "Tromsø|Bergen|Windhoek", ""),
        ("", "English|Russian|Portuguese|Turkish", ""),
        (
            "",
            "Ibn Bāz|Ibn ʿUthaymīn|Ibn Rajab|Ibn Kathīr|Ibn Taymiyyah|Ibn al-Qayyim|Ibn Qudāmah|Ibn ʿAbbās|Ibn Ḥajar",
            "",
        ),
        (r"(?<![Ss]aḥīḥ )(?<![Ṣ]aḥīḥ )", "al-Bukhārī|al-Albānī|al-Fawzān|al-Wādiʿī|at-Tirmidhī|ash-Shāfiʿī", ""),
        ("", "Imām Aḥmad|Imām Mālik|Imām Muslim", ""),
        ("", "Shaykh Muqbil|Shaykh Yaḥyā|Shaykh Ṣāliḥ|Shaykh Abdullāh", ""),
        ("", "Abū Hurayrah|Abū Bakr|Abū Dharr|Abū Saʿīd|Abū Dāwūd|Abū Ḥanīfah", ""),
        ("", "Umm Salamah|Umm Zaynab|Umm Tamīm|Umm Kulthūm|Umm Muṣʿab", ""),
        ("", "Khadījah|Maryam|Fāṭimah|ʿĀʾishah", ""),
        ("", "Mūsā|Ibrāhīm|Yūsuf|Nūḥ|Ādam", ""),
        ("", "Yemen|Egypt|Syria|Khuzāʿah", ""),
        ("", "Madīnah|Makkah|Dammāj", ""),
        ("", "ʿUmar|ʿUthmān|ʿAlī", r"(?![\w-])"),
    ],
}
FIRST_NAMES = (
    "Максим Дмитрий Владимир Илон Роман Евгений Дональд Михаил Илья Сергей Алексей Андрей Анатолий Антон Павел "
    "Александр Иван Олег Валерий Юрий Николай Савва",
    "Татьяна Эльвира Ольга Полина Мария Елена Анна Оксана Наталья Клавдия",
)
MONTHS = {
    "ru": ["января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split()],
    "en": [
        "January February March April May June July August September October November December".split(),
        "Ramaḍān Shaʿbān Shawwāl Dhul-Ḥijjah Muḥarram".split(),
    ],
}
# Days of the week in one form each.
DAYS = {
    "ru": ["понедельник вторник четверг".split(), "среду пятницу субботу".split()],
    "en": [
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
        "Mondays Tuesdays Wednesdays Thursdays Fridays Saturdays Sundays".split(),
    ],
}
# Words of number that may stand for each other.
NUMBER_WORDS = {
    "ru": [
        "пять шесть семь восемь девять десять".split(),
        "трое четверо пятеро".split(),
        "пяти шести семи".split(),
        "дважды трижды".split(),
        "двух трёх четырёх".split(),
    ],
    "en": [
        "two three four five six seven eight nine ten eleven twelve".split(),
        "Two Three Four Five Six Seven Eight Nine Ten".split(),
        "twenty thirty forty fifty sixty seventy ninety hundred".split(),
        "twice thrice".split(),
        "second third fourth fifth".split(),
    ],
}
# How a small number is said in words, in either language: beginnings of words.
NUMERALS = {
    "2": "two|twice|second|пар[аыу]|дв[аеу]|втор",
    "3": "three|thrice|third|тр[иеё]",
    "4": "four|четв[её]р|четыр",
    "5": "five|fifth|пят",
    "6": "six|шест",
    "7": "seven|сем[ьи]|седьм",
    "8": "eight|вос[её]?м",
    "9": "nin[et]|девят",
    "10": "ten|десят",
    "11": "eleven|одиннадцат",
    "12": "twel|двенадцат",
    "20": "twent|двадцат",
    "30": "thirt|тридцат",
}
# A sentence with one of these is not made false by another number, date or name.
NEGATIONS = {
    "ru": r"\b(?:не|ни|нет|без|нельзя|кроме|никто|ничего|никогда|никак\w*|невозможно|неправда|против)\b",
    "en": r"\b(?:not|no|never|none|nor|without|nobody|nothing|cannot|neither|unless|except|any|lest)\b|n[’']t\b",
}
UNSURE = {
    "ru": r"\b(?:если|или|либо|якобы|возможно|вероятно|может|могут|бы|чтобы|говорят|слух\w*|лишь|только|хотя|разве|"
    r"пусть|например|любо\w*|кто|когда|где|куда|зачем|почему|как)\b|\?",
    "en": r"\b(?:if|or|whether|maybe|perhaps|might|may|would|could|suppose|whoever|whenever|when|why|how|what|like|"
    r"such as|example|e\.g|between|let|either|lest)\b|\?",
}
# Before one of these a number is a bound, not a value.
HEDGES = {
    "ru": r"(?:более|менее|чем|больше|меньше|свыше|до|от|около|почти|примерно|порядка|минимум|максимум|после|ниже|выше|"
    r"старше|младше|ранее|позднее|раньше|позже|глава|стать[яеи]|пункт|часть|№|с|к|не)\s*$",
    "en": r"(?:more than|less than|over|under|up to|at least|at most|about|around|almost|nearly|roughly|after|before|"
    r"than|from|to|No\.?|chapter|verse|number|version|p\.|by|within|room|the|of the)\s*$",
}
# Verbs before which "не" makes the sentence false, and after which an English "not" does.
VERBS = (
    "будет будут является являются работает работают пройдёт пройдет стал стала стали начал начали получил "
    "получила получили получит получат подписал подписали утвердил утвердила утвердили поддержал поддержала "
    ""
    "вырос выросла выросли составил составила составили вошёл вошла вошли вернулся вернулась вернулись "
    "открыл открыла открыли запустил запустила запустили удалось хочет хотят планирует планируют погиб погибли "
    "пострадал пострадали собирается собираются находится находятся приехал приехала покажет войдёт войдут "
    "появится появятся появился появилась появились прошёл прошла прошли состоится состоялась состоялось приняли "
    "принял приняла выступил обещает обещали нашли нашёл закрыли переезжает обойдётся сработает сработал спас"
)
AUXILIARIES = "is are was were will can has should must had"
# Pairs that say the opposite of each other, in the same form.
ANTONYMS = {
    "ru": "открыт/закрыт открыта/закрыта открыто/закрыто открыты/закрыты открыли/закрыли открыл/закрыл "
    "открылся/закрылся открылась/закрылась открылись/закрылись откроют/закроют открывается/закрывается "
    "вырос/снизился выросли/снизились выросло/снизилось вырастет/снизится увеличил/сократил "
    "увеличила/сократила увеличили/сократили увеличился/сократился увеличилась/сократилась увеличилось/сократилось "
    "увеличит/сократит повысил/понизил повысила/понизила повысили/понизили повысит/понизит "
    "разрешил/запретил разрешили/запретили разрешила/запретила запрещено/разрешено запретят/разрешат "
    "подорожал/подешевел подорожала/подешевела подорожали/подешевели подорожает/подешевеет "
    "выше/ниже дороже/дешевле теплее/холоднее раньше/позже быстрее/медленнее старше/младше "
    "купил/продал купила/продала купили/продали выиграл/проиграл выиграли/проиграли победил/проиграл "
    "начал/закончил начали/закончили начался/закончился началась/закончилась начались/закончились "
    "включили/отключили включил/отключил включат/отключат поднимает/опускает поднял/опустил подняли/опустили "
    "лучшей/худшей лучший/худший рост/спад повышение/снижение "
    "первый/последний первая/последняя первой/последней бесплатно/платно обязательна/необязательна "
    "положительно/отрицательно север/юг ночью/днём утром/вечером высокий/низкий высокая/низкая "
    "сильный/слабый добавили/убрали разрешается/запрещается можно/нельзя положительный/отрицательный",
    "en": "opened/closed open/closed opens/closes raised/lowered rises/falls higher/lower increases/decreases "
    "increase/decrease permissible/impermissible allowed/forbidden prohibited/permitted obligatory/optional "
    "lawful/unlawful correct/incorrect authentic/fabricated weak/strong always/never before/after first/last "
    "early/late best/worst better/worse more/fewer less/more larger/smaller greater/lesser greatest/smallest "
    "inside/outside above/below free/paid beneficial/harmful good/bad happy/sad "
    "cold/hot rich/poor long/short west/east north/south upstairs/downstairs quiet/loud bright/dim "
    "gained/lost increased/decreased blameworthy/praiseworthy true/false "
    "many/few abundant/scarce public/private yes/no thick/thin big/tiny near/far "
    "everyone/nobody found/lost accepted/rejected "
    "major/minor beginning/end recommended/disliked",
}
