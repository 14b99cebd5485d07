# Every English sentence a reader sees. The same ids are in ru.ftl; a test compares them.

## Greeting and help

start-hello = I answer questions from the posts of your channels. Every sentence links to the post it comes from, and what the posts do not say, I do not say.
start-reads = { $count ->
    [one] I read { $count } channel for you:
   *[other] I read { $count } channels for you:
}
titles-more = … and { $more } more
start-how = Just write your question, in English or Russian. For example: when does registration open?
start-how-group = Ask with { $command } and your question, mention me, or reply to one of my messages.
start-no-admin = There is no admin yet. Your id is { $id }. To become the admin, put this line into the file .env and restart the bot:
    { $line }

help-private =
    Write a question, and I look for the answer in the posts of the channels you may read.

    { $ask } question — the same, also in groups
    { $start } — which channels I read for you

    The numbers after a sentence open the posts it comes from. Where the posts do not say, I say so and show the nearest ones.
help-admin =
    For admins:
    { $channels } — channels, and who may read them
    { $bind } — in a group: which channels the group may ask
help-group =
    { $ask } question — I answer from the channels bound to this group.
    A reply to one of my messages or a mention works too. Otherwise I stay silent.

unknown-command = I do not know this command. { $help } lists those I know.
not-text = I read only text so far: write your question in words.

## Asking

ask-empty = Write the question after the command, for example: { $example }
ask-example = when does registration open?
ask-too-long = { $limit ->
    [one] A question may have { $limit } character, and this one has { $length }. Please shorten it.
   *[other] A question may have { $limit } characters, and this one has { $length }. Please shorten it.
}

none-visible-reader = No channel is open to you yet: ask the bot's admin to make one public.
none-visible-admin = There are no channels yet: import an export of Telegram Desktop (citegram import result.json) or add me to a channel as admin.
none-visible-pending = No channel is approved yet: { $channels } shows those that wait for you.
none-visible-group = No channel is bound to this group yet: an admin of the bot does that here with { $bind } @channel.

## Answers

date = { $month ->
    [1] { $day } January { $year }
    [2] { $day } February { $year }
    [3] { $day } March { $year }
    [4] { $day } April { $year }
    [5] { $day } May { $year }
    [6] { $day } June { $year }
    [7] { $day } July { $year }
    [8] { $day } August { $year }
    [9] { $day } September { $year }
    [10] { $day } October { $year }
    [11] { $day } November { $year }
   *[other] { $day } December { $year }
}
sources = { $count ->
    [one] Source
   *[other] Sources
}
source-edited = edited { $date }
source-forwarded = forwarded from “{ $origin }”
source-copies = { $count ->
    [one] also in { $count } channel
   *[other] also in { $count } channels
}
unnamed-channel = channel
footer-verbatim = Word for word from the posts, no model
footer-counted = Worked out from the dates and counts of the posts, no model
footer-model = Written by the model { $model } from these posts

refused = This is not in the channels I read for you.
refused-group = This is not in the channels bound to this group.
refused-partly = I found no answer, but I could not search everything.
nearest = { $count ->
    [one] The nearest post:
   *[other] The nearest posts:
}

shortfall = { $stage ->
    [plan] I could not think the question through, so I searched for it as it stands.
    [search] A part of the search did not answer: something may be missing.
    [dense] I searched by words alone: the search by meaning does not answer.
    [chronicle] Counting took too long, so I searched instead: there may be more posts.
    [rerank] The found posts are not sorted as well as usual.
    [fetch] Some of the found posts could not be read: something may be missing.
    [write] The answer could not be written out: these are the posts' own words.
   *[other] One step of the search was left out: something may be missing.
}

## Trouble

trouble-archive = The archive of posts cannot be read or written right now. Please try again later.
trouble-index = The search does not work right now, so I cannot tell whether the posts say this. Please try again later.
trouble-timeout = This took too long and I stopped. Please try again, perhaps with a shorter question.
trouble-general = Something went wrong on my side; it is in the log. Please try again later.
trouble-reason = For the admin: { $reason }

## Channels (admins)

admins-only = Only the bot's admins can do this. There is no admin yet, or you are not one: { $start } tells who is.
channels-none = No channels yet. Import an export of Telegram Desktop (citegram import result.json) or add me to a channel as admin.
channels-title = { $count ->
    [one] { $count } channel
   *[other] { $count } channels
}
channels-choose = Choose one to change who may read it.
channel-posts = { $count ->
    [one] { $count } post
   *[other] { $count } posts
}
channel-state = { $state ->
    [pending] waits for your approval
    [paused] paused
   *[other] read
}
channel-visibility = { $visibility ->
    [public] for everyone
    [members] for members
   *[other] for admins
}
channel-ask-visibility = Who may read it through me?
channel-members-note = Members can ask in the groups it is bound to; elsewhere only admins read it.
channel-set = Done: { $title } is { $visibility }.
channel-gone = I do not know this channel any more.
button-public = Everyone
button-members = Members
button-admins = Admins only
button-back = ‹ Back
button-earlier = ‹ Earlier
button-later = Later ›

channel-added = I was added to the channel { $title }. Nothing from it is shown to anybody until you say who may read it:
channel-added-known = I was added to the channel { $title }. I know it already: new posts are read from now on.
added-by = Added by { $name } (id { $id }).

## Channels in groups

bind-how = Write the channel after the command: { $example }
bind-unknown = I do not know the channel { $name }. { $channels } in a private chat lists those I know.
bind-pending = The channel { $title } waits for approval: { $channels } in a private chat.
bind-done = Bound: everyone in this group can now ask about { $title }.
bind-undone = Unbound: this group can no longer ask about { $title }.
bind-list = { $count ->
    [one] This group asks { $count } channel:
   *[other] This group asks { $count } channels:
}
bind-none = This group asks no channel yet.
bind-in-group = This works in a group: add me there and repeat it.

## Menu

menu-ask = Ask a question
menu-help = What I can do
menu-start = Which channels I read
menu-channels = Channels and who may read them
