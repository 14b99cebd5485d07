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
    { $why } — what my last answer stands on, and what was edited since
    { $start } — which channels I read for you

    The numbers after a sentence open the posts it comes from. Where the posts do not say, I say so and show the nearest ones.
help-admin =
    For admins:
    { $channels } — channels, and who may read them
    { $importing } — reads an export of a channel that you send me
    { $bind } — in a group: which channels the group may ask
    { $delete } link — takes a post out of all answers
    { $check } link — looks whether a post is still there
    { $reindex } — rebuilds the search index
    { $stats } — how I am: indexes, questions, backups, failures
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
source-forwarded = { $origin }, forwarded by { $channel }
source-copies = { $count ->
    [one] also in { $count } channel
   *[other] also in { $count } channels
}
unnamed-channel = channel
unnamed-origin = somebody
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

channel-added = { $state ->
    [pending] I was added to the channel { $title }. Nothing from it is shown to anybody until you say who may read it:
    [paused] I was added to the channel { $title }. I know it already and it is paused: new posts are kept and not searched.
   *[other] I was added to the channel { $title }. I know it already: new posts are read from now on.
}
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

## Why an answer says what it says

why-question = To your question “{ $question }”
why-gone = { $title } · { $date } — this post is gone or closed by now
why-changed = Changed { $date }:
why-changed-after = Changed after the answer, { $date }:
why-changed-before = Changed before the answer, { $date }:
why-changed-more = { $more ->
    [one] … and { $more } more change
   *[other] … and { $more } more changes
}
why-changed-spaces = only spaces and line breaks
why-unknown-before = I do not know what it said before the edit.
why-others = Also found, but not used:
why-refused = { $count ->
    [one] I found this post, but it does not answer the question:
   *[other] I found these posts, but they do not answer the question:
}
why-nothing-found = I found no post about it.
why-closed = Nothing behind this answer is open to you now.
why-none = I have not answered you here yet: ask something, then { $why } shows what the answer stands on.
why-unknown = I have no answer behind this message: reply with { $why } to one of my answers.
why-not-yours = This answer was given to somebody else: ask yourself, then { $why } shows what my answer stands on.
menu-why = What my last answer stands on

## The life of a channel (admins)

channel-adder-told = Thank you for adding me to the channel { $title }. One of my admins has to approve it first: until then nobody can ask about it.
channel-thrown-out = I am no longer an administrator of the channel { $title }, so its new posts do not reach me. What I have stays readable; { $channels } can pause or remove it.
removed-by = Done by { $name } (id { $id }).
channel-last = last post { $date }
channel-left = I am no longer in it
channel-outside = I am not in it
channel-guarded-in = { $count ->
    [one] { $count } protected or paid post searched too
   *[other] { $count } protected or paid posts searched too
}
channel-guarded-out = { $count ->
    [one] { $count } protected or paid post left out
   *[other] { $count } protected or paid posts left out
}
channel-unread = { $count ->
    [one] { $count } change not yet in the search by words
   *[other] { $count } changes not yet in the search by words
}
channel-unembedded = { $count ->
    [one] { $count } change not yet in the search by meaning
   *[other] { $count } changes not yet in the search by meaning
}
channel-gaps = { $count ->
    [one] { $count } gap
   *[other] { $count } gaps
}
channel-missing = Posts may be missing: { $times }.
channel-set-guarded = { $shown ->
    [yes] Done: protected and paid posts of { $title } are searched too.
   *[other] Done: protected and paid posts of { $title } are left out.
}
channel-not-approved = { $title } is not approved yet: say first who may read it.
channel-paused = Paused: { $title } is not searched any more. New posts are still kept.
channel-resumed = { $title } is searched again.
channel-remove-ask = { $count ->
    [0] Remove { $title }? It has no posts. The groups bound to it lose it.
    [one] Remove { $title }? Its { $count } post is deleted for good, with every version. The groups bound to it lose it.
   *[other] Remove { $title }? Its { $count } posts are deleted for good, with every version. The groups bound to it lose it.
}
channel-remove-late = This question is too old. Open the channel again with { $channels }.
channel-removed = { $count ->
    [0] Removed: { $title }.
    [one] Removed: { $title }. Its { $count } post is found no more, and its data is being deleted.
   *[other] Removed: { $title }. Its { $count } posts are found no more, and their data is being deleted.
}
channel-removed-inside = I am still in the channel: its next post would make it wait for your approval again.
channel-removing = Removing { $title } …
channel-left-now = I have left the channel.
button-pause = Pause
button-resume = Resume
button-guarded-in = Search protected and paid posts too
button-guarded-out = Leave protected and paid posts out
button-remove = Remove…
button-remove-yes = Yes, delete all of it
button-leave = Leave the channel
button-stale = This button is out of date. Ask again with the command.

## Posts that go (admins)

delete-how = Send { $command } with links to posts, or as a reply to a post that you forwarded to me.
delete-most = At most { $most } links at once, please.
delete-unknown = { $link } — I have no such post, or it is deleted already.
delete-sure = { $count ->
    [one] Take this post out of all answers? In the channel itself nothing changes.
   *[other] Take these { $count } posts out of all answers? In the channel itself nothing changes.
}
delete-done = { $count ->
    [one] Deleted: no answer uses it any more. Only an edit in the channel brings it back.
   *[other] Deleted: no answer uses them any more. Only an edit in the channel brings one back.
}
delete-kept = Nothing was deleted.
delete-again = These posts have changed meanwhile: send { $delete } again.
button-delete = Delete
button-keep = Keep
check-told = { $where ->
    [there] It is there.
    [gone] It is gone from the channel: answers leave it out until it is seen again.
    [uncopied] It cannot be copied (protected, or of a kind that never can), so I cannot tell whether it is there. Nothing was changed.
    [closed] I cannot look: I am not in this channel, or have no rights there. Nothing was changed.
   *[unsure] Telegram gave no clear answer. Nothing was changed: try again later.
}
check-back = It is there: answers use it again.
menu-delete = Take a post out of all answers
menu-check = Is a post still there?

## Rebuilding the index (admins)

reindex-ask = Build the search index anew from all the posts I keep? It takes a few minutes; questions are answered from the old one meanwhile.
reindex-all = All channels
reindex-one = One channel…
reindex-no = Cancel
reindex-stop = Cancel
reindex-which = Which channel?
reindex-nothing = Nothing was changed.
reindex-unknown = I do not know the channel { $name }. { $channels } lists those I know.
reindex-begins = Beginning…
reindex-busy = An index is being rebuilt already: wait until it is done, or cancel it.
reindex-over = It is over already.
reindex-what-all = all channels
reindex-running = Rebuilding the index: { $what }
reindex-preparing = Preparing…
reindex-progress = { $total ->
    [one] { $done } of { $total } post ({ $percent } %)
   *[other] { $done } of { $total } posts ({ $percent } %)
}
reindex-left = { $minutes ->
    [0] Less than a minute left
    [one] About { $minutes } minute left
   *[other] About { $minutes } minutes left
}
reindex-done = { $count ->
    [one] Done: the index has been rebuilt ({ $what }, { $count } post).
   *[other] Done: the index has been rebuilt ({ $what }, { $count } posts).
}
reindex-renewed = { $count ->
    [one] { $count } post is being prepared anew for the search by meaning.
   *[other] { $count } posts are being prepared anew for the search by meaning.
}
reindex-cancelled = Cancelled: the old index is in use as before.
reindex-failed = The index was not rebuilt, the old one is in use. { $reason }
menu-reindex = Rebuild the search index

## Gaps, jobs and /stats (admins)

gaps-found = { $count ->
    [one] Posts may be missing: there is a time in which I was not told of any.
   *[other] Posts may be missing: there are { $count } times in which I was not told of any.
}
gap-before = before { $until }
gap-between = { $since } – { $until }
gaps-fill =
    To fill it: in Telegram Desktop open the channel, ⋮ → Export chat history, format JSON, no media. Then send me its result.json with /import, or run citegram import result.json.
mended = Nightly check: the search index differed from the archive and is being put right (posts taken in again: { $again }, taken out: { $out }).
job-failing = Something that runs by itself has failed: { $job }. { $reason }
job = { $name ->
    [inbox] inbox
    [heartbeat] contact with Telegram
    [gaps] gaps
    [save] saving the index
    [forget] forgetting
    [check] nightly check
    [damage] look through the archive
    [backup] backup
    [lexical] index
    [dense] index by meaning
    [copies] duplicates
    [copies] copies of posts
    [answers] answers
   *[other] { $name }
}
ago = { $unit ->
    [s] { $number } s ago
    [m] { $number } min ago
    [h] { $number } h ago
   *[d] { $number } days ago
}
size = { $unit ->
    [gb] { $number } GB
   *[mb] { $number } MB
}
stats-words = { $waiting ->
    [0] Search by words: { $count } passages, up to date
   *[other] Search by words: { $count } passages, { $waiting } changes to come
}
stats-vectors = { $waiting ->
    [0] Search by meaning: { $count } vectors, up to date
   *[other] Search by meaning: { $count } vectors, { $waiting } posts to come
}
stats-no-vectors = Search by meaning: off
stats-vectors-fail = Search by meaning fails. { $reason }
stats-inbox = { $aside ->
    [0] Inbox: { $waiting } waiting
   *[other] Inbox: { $waiting } waiting, { $aside } in quarantine
}
stats-gaps = { $count ->
    [0] No gaps
    [one] { $count } gap: { $channels }
   *[other] { $count } gaps: { $channels }
}
stats-today = { $waiting ->
    [0] Questions today: { $count } (answered { $answered }, refused { $refused }, failed { $failed })
   *[other] Questions today: { $count } (answered { $answered }, refused { $refused }, failed { $failed }, waiting { $waiting })
}
stats-week = In 7 days: { $count } (answered { $answered }, refused { $refused }, failed { $failed })
stats-memory = Memory: { $size }
stats-disk = Disk: archive { $archive }, indexes { $indexes }, backups { $backups }; { $free } free
stats-backup = Last backup: { $ago } (kept: { $count })
stats-no-backup = No backup yet
stats-backups-off = Backups are off
stats-jobs = Done: { $jobs }
stats-job-fails = ⚠ Fails: { $job }, last { $ago }, { $count } times in all. { $reason }
stats-job-failed = Failed { $ago }, works again: { $job }. { $reason }
menu-stats = How the bot is

## Importing an export (admins)

import-how =
    Send me the export of a channel as a document with the caption { $example }, or reply with { $example } to one that you have sent.

    In Telegram Desktop: open the channel, ⋮, Export chat history, without media, format “machine-readable JSON”. Send result.json, or a zip with it. The pages of an HTML export work too, with the channel after the command: { $example } @channel
import-offer = { $file } looks like an export of a chat. Shall I import it?
import-gone = I do not see that document any more: send it again with { $command }.
import-busy = Another import is running: wait until it is done, or stop it.
import-file = the document
import-fetching = Fetching { $file } …
import-at = Importing { $file }: { $percent } %
import-stopping = Stopping …
import-over = This import is over.
import-stopped = The import of { $file } was stopped. What was read until then is kept; sent again, it goes on.
import-interrupted = The import of { $file } was interrupted, as I was restarted. What was read until then is kept: send it again, and it goes on.
import-done = { $file } is imported.
import-counts = New: { $new } · edited: { $edited } · unchanged: { $unchanged } · left out: { $skipped } · deleted: { $deleted }
import-who = Only admins read { $title } so far. Who may read it through me?
import-who-many = { $count ->
    [one] { $count } channel was new to me: only admins read it, until you say otherwise with { $channels }.
   *[other] { $count } channels were new to me: only admins read them, until you say otherwise with { $channels }.
}
import-too-big = { $file } is larger than 20 MB, and Telegram gives me no larger files. On the machine I run on, import it with: citegram import result.json
import-not-fetched = Telegram did not give me { $file }: send it again.
import-far = My Bot API server keeps { $file } where I cannot read it: on the machine I run on, import it with: citegram import result.json
import-disk = There is no room for the import on my disk, or it cannot be written: free some space and send it again.
import-too-heavy = { $file } needs more memory or time than a document may have: on the machine I run on, import it with: citegram import result.json
import-too-long = Reading { $file } took too long: on the machine I run on, import it with: citegram import result.json
import-zip-broken = The zip { $file } cannot be read: pack it again, or send result.json itself.
import-zip-members = The zip { $file } holds more than { $most } files: export the chat without media, or send result.json itself.
import-zip-encrypted = The zip { $file } is encrypted: send it without a password.
import-zip-path = The zip { $file } holds a path that leads out of its folder: send result.json itself.
import-zip-nested = The zip { $file } holds another archive, { $name }: export the chat without files, or send result.json itself.
import-zip-size = The zip { $file } holds more than { $most } MB: on the machine I run on, import it with: citegram import result.json
import-zip-ratio = The zip { $file } is packed more than { $most } times smaller than it is, which no export is: send result.json itself.
import-zip-many = The zip { $file } holds several exports: send them one by one.
import-zip-empty = The zip { $file } holds neither result.json nor messages.html: export the chat again.
import-cut = { $file } ends in the middle: export the chat again, or send the whole file.
import-empty = { $file } is empty: export the chat again.
import-number = { $file } holds a number that is too big: export the chat again.
import-not-json = { $file } is no JSON: send the result.json that Telegram Desktop writes as “machine-readable JSON”.
import-deep = { $file } is nested too deeply for an export of Telegram Desktop: export the chat again.
import-no-export = { $file } is JSON, but no export of Telegram Desktop: send the result.json of an exported chat.
import-no-page = { $file } is HTML, but no chat that Telegram Desktop exported: send the messages.html of a chat.
import-nameless = { $file } does not say which chat it is from: export the chat again.
import-private = { $file } holds private conversations only, and those I do not take here.
import-whose = { $file } does not say which channel it is from: send it with its @name or id, as { $example }
import-other-chat = { $file } is not from the channel you named: check the name, or leave it out.
import-refused = { $file } cannot be imported: { $reason }
import-note-private = { $count ->
    [one] Left out { $count } private conversation.
   *[other] Left out { $count } private conversations.
}
import-note-nameless = { $count ->
    [one] Left out { $count } chat without an id.
   *[other] Left out { $count } chats without an id.
}
import-note-empty = { $title }: the export holds no messages.
import-note-migrated = { $count ->
    [one] { $title }: left out { $count } message older than the supergroup, no link leads to it.
   *[other] { $title }: left out { $count } messages older than the supergroup, no link leads to them.
}
import-note-broken = { $count ->
    [one] { $title }: left out { $count } entry that could not be read.
   *[other] { $title }: left out { $count } entries that could not be read.
}
import-note-public = { $title }: Telegram calls it public, but its @name is not in the export. Sent again with { $command } @name, its links open for everybody.
import-note-kept = { $count ->
    [one] { $title }: { $count } known post is not in this full export and was kept. Export the channel alone to have it removed.
   *[other] { $title }: { $count } known posts are not in this full export and were kept. Export the channel alone to have them removed.
}
import-note-damaged = { $count ->
    [one] { $title }: { $count } message of the export is damaged, so nothing was removed. Export the channel again to have what is gone removed.
   *[other] { $title }: { $count } messages of the export are damaged, so nothing was removed. Export the channel again to have what is gone removed.
}
import-note-next = The export goes on in { $page }: send all its pages in one zip.
import-note-doubtful = { $count ->
    [one] { $count } post reads otherwise than after its last known edit, so its text was kept as an earlier one. Import result.json to be sure.
   *[other] { $count } posts read otherwise than after their last known edit, so these texts were kept as earlier ones. Import result.json to be sure.
}
import-notes-more = { $count ->
    [one] … and { $count } more remark.
   *[other] … and { $count } more remarks.
}
button-import = Import it
button-stop = Stop
menu-import = Import an export of a channel

## Copies

source-copies-first = { $count ->
    [one] also in { $count } channel, first { $first } { $when }
   *[other] also in { $count } channels, first { $first } { $when }
}
