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
    Just write your question. I look for the answer in the posts, and the small numbers open them. If the posts do not say, I tell you so.

    { $search } ferry in August — find posts
    { $verifying }
    { $new } — start over, without the earlier questions
    { $help } more — everything else
help-more =
    { $why } — where my last answer comes from
    { $sources } — the words of the posts behind it
    { $link } — a link that asks the same question
    { $mode } — quick or thorough answers
    { $stop } — stop working on my question
    { $start } — the channels I read for you

    { $privacy } — what I keep about you
    { $mydata } — send me everything you keep
    { $forget } — erase it
help-admin =
    For admins:
    { $channels } — channels, and who may read them
    { $importing } — reads an export of a channel that you send me
    { $bind } — in a group: which channels the group may ask
    { $delete } link — takes a post out of all answers
    { $check } link — looks whether a post is still there
    { $reindex } — rebuilds the search index
    { $models } — which models work, and others to choose
    { $stats } — how I am: indexes, questions, backups, failures
    { $grant } id, { $revoke } id — makes somebody an admin, takes it back
help-group =
    { $ask } question — I answer from the channels bound to this group.
    { $search } words — posts of these channels, page by page
    { $verifying }
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
none-visible-group = No channel is bound to this group yet: its admins choose some with { $settings }, or an admin of the bot with { $bind } @channel.

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
refused-unsure = I found no answer that I am sure of.
refused-partly = I found no answer, but I could not search everything.
nearest = { $count ->
    [one] The nearest post:
   *[other] The nearest posts:
}

shortfall = { $stage ->
    [plan] I could not think the question through, so I searched for it as it stands.
    [rewrite] I searched with fewer wordings of the question than usual.
    [search] A part of the search did not answer: something may be missing.
    [dense] I searched by words alone: the search by meaning does not answer.
    [lexical] I searched by meaning alone: the search by words does not answer.
    [copies] Copies of the same post are not put together.
    [chronicle] Counting took too long, so I searched instead: there may be more posts.
    [rerank] The found posts are not sorted as well as usual.
    [fetch] Some of the found posts could not be read: something may be missing.
    [recipe] The longer way of answering did not come to its end: this is the short one.
    [overlap] The answer has few of the question's words: it may be about something else.
    [support] Some sentences were left out: the posts do not say them.
    [judge] The model only says yes or no, not how sure it is: this check is rougher than usual.
    [write] The answer could not be written out: these are the posts' own words.
    [stopped] Stopped: this is what I had so far.
   *[other] One step of the search was left out: something may be missing.
}

## Trouble

trouble-archive = The archive of posts cannot be read or written right now. Please try again later.
trouble-unchecked = I could not check whether this is still open to you. Try again in a minute.
trouble-index = The search does not work right now, so I cannot tell whether the posts say this. Please try again later.
trouble-timeout = This took too long and I stopped. Please try again, perhaps with a shorter question.
trouble-general = Something went wrong on my side; it is in the log. Please try again later.
trouble-reason = For the admin: { $reason }

## Reasons, for admins

archive-not-opened = The archive { $file } cannot be opened. Check that its folder exists and may be read and written.
archive-locked = The archive { $file } is locked by another program. Close that program and try again.
archive-read-only = The archive { $file } cannot be written. Check the permissions of the file and its folder.
archive-disk-full = The disk that holds the archive { $file } is full. Free some space and try again.
archive-disk-failed = The disk that holds the archive { $file } cannot be read or written. Check the disk.
archive-damaged = The archive { $file } is damaged. Stop me and run `citegram restore`: it puts back the backup of { $moment } UTC.
archive-lost = The archive { $file } is damaged, and there is no backup of it. Move the file aside, start me again, and import the exports of your channels.
index-not-written = The index cannot be written to disk ({ $said }): free some space.
rebuild-not-started = The process that builds an index cannot be started ({ $said }).
rebuild-child-ended = The process that builds the new index ended { $tries } times ({ $how }). Check that memory is free, and begin again; its last words are in { $log }.
rebuild-unreadable = The new index cannot be read back from { $folder }. Check the disk, and begin again.
vectors-worker-ended = The engine of the search by meaning in { $folder } does not run (it ended with { $exit }: { $said }). Check that memory and disk space are free.
vectors-unusable = The index of the search by meaning in { $folder } cannot be read or written ({ $said }). Check the disk and its permissions.
vectors-failed = The index of the search by meaning in { $folder } failed ({ $said }). Restart me; if it fails again, delete the folder: it is built anew from the archive.
vectors-damaged = The index of the search by meaning in { $folder } was damaged while it was in use ({ $said }). Restart me: it is built anew.
vectors-disk-full = The disk that holds the index of the search by meaning in { $folder } is full. Free some space and try again.
qdrant-silent = The Qdrant server at { $where } does not answer ({ $said }). Check that it runs, and QDRANT__URL.
qdrant-unknown = What answers at { $where } is no Qdrant server that I know. Check QDRANT__URL, and that it is 1.16 or later.
qdrant-key-refused = The Qdrant server at { $where } refuses the key. Check QDRANT__KEY.
qdrant-failed = The Qdrant server at { $where } could not do its work ({ $said }).
model-fixed = { $setting } is { $value }, and a setting goes before a choice: change it there.
model-server-writes = LLM__URL is set, and that server writes: empty it to choose a model here.
model-missing = The model { $model } is not in { $folder }: run citegram models pull { $pulled }.
model-incomplete = The folder { $folder } of the model { $model } has no { $part }: run citegram models pull { $pulled } again.
model-damaged = The file { $part } of the model { $model } is damaged: run citegram models pull { $pulled } again.

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
channel-members-note = Members are those whom Telegram knows as such when they ask me in private; that takes me as an admin of the channel. In a group it is bound to, everybody may ask.
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
why-probable = I was not sure of this answer.
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

## The life of a channel (admins)

channel-adder-told = Thank you for adding me to the channel { $title }. One of my admins has to approve it first: until then nobody can ask about it.
channel-adder-refused = Too many channels wait for approval, so I have left { $title }: please ask an admin of mine to add me.
channels-digest = More changes of channels, told together:
channels-digest-line = • { $title }: { $state ->
    [pending] waits for your approval
    [out] I am no longer in it
   *[in] I am in it
}{ $times ->
    [one] {""}
   *[other] { " " }(changed { $times } times)
}
channels-digest-how = { $channels } shows all of them.
channels-refused = { $count ->
    [one] I left { $count } channel that a stranger added me to, because { $most } wait for your approval already: approve or remove some.
   *[other] I left { $count } channels that strangers added me to, because { $most } wait for your approval already: approve or remove some.
}
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
    [one] The search by words is { $waiting } change behind
   *[other] The search by words is { $waiting } changes behind
}
stats-vectors = { $waiting ->
    [one] The search by meaning is { $waiting } post behind
   *[other] The search by meaning is { $waiting } posts behind
}
stats-vectors-fail = The search by meaning does not work. { $reason }
stats-inbox = { $aside ->
    [one] { $aside } message from Telegram that I could not read:
   *[other] { $aside } messages from Telegram that I could not read:
}
stats-gaps = { $count ->
    [one] Posts may be missing at { $count } place: { $channels }
   *[other] Posts may be missing at { $count } places: { $channels }
}
stats-today = { $waiting ->
    [0] Questions today: { $count } (answered { $answered }, not found { $refused }, failed { $failed })
   *[other] Questions today: { $count } (answered { $answered }, not found { $refused }, failed { $failed }, waiting { $waiting })
}
stats-week = Last 7 days: { $count } (answered { $answered }, not found { $refused }, failed { $failed })
stats-disk = Disk: { $free } free; posts { $archive }, search { $indexes }, backups { $backups }
stats-backup = Last backup: { $ago } (kept: { $count })
stats-no-backup = No backup yet: the first is made tonight
stats-backups-off = Backups are switched off
stats-job-fails = ⚠ Failing: { $job } (last { $ago }, { $count } times). { $reason }
stats-job-failed = Failed { $ago }, fine again: { $job }. { $reason }
menu-stats = How I am doing

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
    [one] also in { $count } channel, first { $first }, { $when }
   *[other] also in { $count } channels, first { $first }, { $when }
}

## Search for posts

search-empty = Write after the command what to look for, for example: { $example }
search-example = ferry in August
search-too-long = { $limit ->
    [one] A search may have { $limit } character, and this one has { $length }. Please shorten it.
   *[other] A search may have { $limit } characters, and this one has { $length }. Please shorten it.
}
search-common = I found no word here to look for: add one that says what the posts are about.
search-busy = I am still at your last searches: one moment, please.
search-for = Search: { $what }
search-all = all posts
search-between = { $since } – { $until }
search-since = since { $date }
search-until = until { $date }
search-count = { $count ->
    [one] Found { $count } post
   *[other] Found { $count } posts
}
search-more = { $count ->
    [one] Found more than { $count } post
   *[other] Found more than { $count } posts
}
search-different = different ones: { $count }
search-similar = near ones: { $count }
search-none-whole = No post has all these words; near ones: { $count }
search-near = Without some of the words, or near in meaning:
search-page = page { $page } of { $pages }
search-quoted = “{ $text }”
search-or = or
search-nothing = I found no such post. Try fewer words, or others.
search-nothing-quoted = I found no post that says just that. Try it without the quotes.
search-nothing-filtered = I found no such post. Try it without { $filters }.
search-nothing-partly = I found no such post, but I could not search everything.
search-not-yours = Only whoever searched can turn these pages. Search for yourself with { $search }.
search-stale = This search is out of date. Search again with { $search }.
search-changed = The posts have changed meanwhile: the pages may have moved.
menu-search = Search for posts

## Models

model-writer = Writer
model-planner = Planner
model-embedder = Search by meaning
model-reranker = Reranker
models-used = In use:
models-unused = No model is in use: posts are searched by words, answers are word for word.
models-press = Press a model to use it from now on:
models-none = No model has been fetched yet. On the machine: { $pull }
models-nobody = none, answers word for word
models-loading = Changing over: { $name }. A large model takes a minute; questions wait for it.
models-now = { $use }, from now on: { $name }.
models-next = { $use }, from the next start of the bot on: { $name }. All posts are then read anew, beside the old index.
models-refused = Nothing was changed. { $reason }
models-gone = This list is out of date: send /models again.
menu-models = Choose the models

## Receipts: the cited words, quoted from the post

receipt = ❝ Quote { $number }
receipt-unknown = I do not have this answer any more. Ask again for one with working buttons.
receipt-closed = This post is in a channel that is not open to you here.
receipt-shown = It is in the chat already: look a little below.
receipt-gone = This post is deleted or closed by now, so I cannot show its words.
receipt-gone-there = Telegram does not find this post in the channel: it may be deleted. Open the link to see for yourself.
receipt-changed = The post was edited after the answer: these words are not in it any more.
receipt-changed-unknown = The post was edited while I answered or after, and I do not have its former words. Open the link to read it as it is now.
receipt-protected = The channel lets nothing be quoted elsewhere, so these are the words as text.
receipt-outside = I am not in this channel, so Telegram cannot quote it here: these are the words as I have them.
receipt-refused = Telegram did not take these words as a quote: the post may have been edited, or they do not stand in its text as such (a poll, several captions, special emoji).

## Verify

verify-empty = Write after the command what is to be checked, for example: { $example }. Or reply with it to a message, or forward me one.
verify-example = the ferry leaves at 7:30
verify-not-text = I can only check what is said in words: forward me a message with text.
verify-nothing = There is nothing here that could be checked: write a sentence that says something.
verify-claim = “{ $claim }”
verify-label = { $label ->
    [supported] The posts say so
    [contradicted] The posts say otherwise
    [contested] The posts disagree
   *[other] The posts do not say this
}
verify-outdated = It was so until { $day }
verify-partly = I did not find this, but I could not search everything.
verify-superseded = A later post says otherwise:
verify-before = Earlier it was as claimed:
verify-against = { $count ->
    [one] Another post says otherwise:
   *[other] Other posts say otherwise:
}
verify-sources = { $count ->
    [one] { $count } independent source, first { $first }, { $when }
   *[other] { $count } independent sources, first { $first }, { $when }
}
verify-left = { $count ->
    [one] { $count } more statement was not checked: send it separately.
   *[other] { $count } more statements were not checked: send them separately.
}
verify-help = { $verify } text — do the posts say so? Also as a reply to a message, or forward me one
verify-help-group = { $verify } text, or as a reply to a message — do the posts say so?
menu-verify = Do the posts say so?

## After an answer

button-sources = Sources
button-why = Why
button-link = Link
button-more = More
button-search = Search for these words
button-rephrase = Ask another way
rephrase-hint = Try the words that a post would use: a name, a place, a date. Ask about one thing at a time.
button-shorter = Shorter
button-deeper = Deeper
button-reason = { $reason ->
    [wrong] It is wrong
    [outdated] Out of date
    [source] Wrong source
   *[other] Not what I asked
}
vote-good = Thank you, noted. You can change your mind.
vote-bad = Noted. What is wrong with it?
vote-reason = Thank you, the reason is noted.
vote-same = That is what you said before.
answer-gone = I do not have this answer any more: ask again.
answer-changed = A post behind the first sentence has changed or is closed to you by now: ask again.
answer-already = It is below already.
answer-not-yours = This is for whoever asked: ask the question yourself.
answer-not-member = This is for members of the group: join it first.
sources-none = This answer cites no post: it only says what was not found.
sources-changed = This post has changed since the answer: open it to read what it says now.
shorter-note = Shortened: only the first sentence. The whole answer is above.
deeper-begins = { $count ->
    [one] I search again, wider, and give up to { $count } sentence if the posts say as much.
   *[other] I search again, wider, and give up to { $count } sentences if the posts say as much.
}
deeper-note = { $count ->
    [0] I searched wider, and it stands on no other posts than before.
    [one] I searched wider: { $count } post is cited that was not before.
   *[other] I searched wider: { $count } posts are cited that were not before.
}
link-whole = This link opens the chat with me and asks your question. The question stands in the link itself; the answer depends on who opens it.
link-kept = This link opens the chat with me and asks your question. Whoever has the link can read the question; /forget makes the link useless.
link-asks = Question from a link: “{ $question }”
stats-votes = Votes in 7 days: 👍 { $good }, 👎 { $bad } (wrong { $wrong }, out of date { $outdated }, not what was asked { $other }, wrong source { $source })

## Privacy

privacy-what = What I keep about you, on the machine of whoever runs me:
privacy-brief = { $days ->
    [one] I keep your questions, and which posts answered them, for { $days } day. After that I only remember how many there were.
   *[other] I keep your questions, and which posts answered them, for { $days } days. After that I only remember how many there were.
}
privacy-unanswered = • questions that the posts did not answer: whoever runs me sees what is asked for in vain, never by whom. The words only once two people asked the same. They go with your questions, and with /forget
button-details = Details
privacy-questions = { $days ->
    [one] • your questions with your Telegram id, the chat and the time, and which places of which posts answered them: { $days } day. A model's own sentences are kept with them. After that it is only counted that something was asked.
   *[other] • your questions with your Telegram id, the chat and the time, and which places of which posts answered them: { $days } days. A model's own sentences are kept with them. After that it is only counted that something was asked.
}
privacy-votes = • your 👍 and 👎 with the reason, and your links to long questions: as long
privacy-updates = • each message to me as Telegram delivered it: until it is handled, which takes a moment. One that I could not read: as long as questions. Its number: 48 hours. The text of an answer on its way to you: until it has arrived
privacy-talks = { $minutes ->
    [one] • your last questions with the names from their answers, to understand follow-ups: { $minutes } minute, or until { $new }
   *[other] • your last questions with the names from their answers, to understand follow-ups: { $minutes } minutes, or until { $new }
}
privacy-memory = • in memory only: how a question was searched, 10 minutes; which chats you are in, 5 minutes
privacy-backups = { $count ->
    [0] There are no backups.
    [one] A copy of all this is made every night; { $count } is kept. /forget does not reach into it: it goes with the next.
   *[other] A copy of all this is made every night; { $count } are kept. /forget does not reach into them: the last one that holds it goes after as many nights.
}
privacy-not = Not kept: your name, and what you look for with { $search }.
privacy-log = { $texts ->
    [yes] The log: the admin has switched on that the texts of questions go there.
   *[other] The log: no texts of questions or answers, only numbers, times and failures.
}
privacy-where = { $server ->
    [yes] Your questions and the posts I find go to a server that the admin chose, for the model or the search. Whoever runs me can read what I keep.
   *[other] Nothing leaves the machine I run on, except through Telegram. Whoever runs me can read what I keep.
}
privacy-do = { $mydata } sends you all of it, { $forget } erases it.
forget-nothing = I keep nothing of you.
forget-nothing-here = I keep nothing of you from this group.
forget-ask = Erase for good what I keep of you from all chats?
forget-ask-here = Erase for good what I keep of you from this group? In a private chat { $forget } erases everything.
forget-questions = { $count ->
    [one] { $count } question with its answer
   *[other] { $count } questions with their answers
}
forget-pending = { $count ->
    [one] { $count } of them not answered yet
   *[other] { $count } of them not answered yet
}
forget-votes = { $count ->
    [one] { $count } vote
   *[other] { $count } votes
}
forget-links = { $count ->
    [one] { $count } link to a question
   *[other] { $count } links to questions
}
forget-unread = { $count ->
    [one] { $count } message I could not read
   *[other] { $count } messages I could not read
}
forget-talks = { $count ->
    [one] { $count } question remembered for follow-ups
   *[other] { $count } questions remembered for follow-ups
}
forget-yes = Erase
forget-no = Keep
forget-kept = Nothing was erased.
forget-done = Erased:
forget-rest = The messages in this chat are Telegram's: delete them there. { $backups ->
    [0] There are no backups.
    [one] The nightly backup ({ $backups }) still holds it until the next one replaces it.
   *[other] The nightly backups ({ $backups }) still hold it, the last one for as many nights.
}
forget-not-yours = This is for whoever sent the command: send { $forget } yourself.
forget-late = This is too old or done already: send { $forget } again.
forget-masked = I cannot tell who you are here: write to me in a private chat, or under your own name.
mydata-here = Your questions, answers, votes and links, as I keep them. Words of posts that are closed to you by now are left out.
mydata-private = I send it only in a private chat: write { $mydata } to me there.

## Groups, by their own admins

group-admins-only = Only the admins of this group can do this, each under their own name: I cannot tell anonymous admins apart.
group-admins-ask = In this group only its admins ask me, each under their own name. In a private chat everybody may.
help-settings = { $settings } — for the group's admins: which channels I answer from here, and how
settings-title = Settings of this group
settings-in-group = This works in a group: add me there, and its admins send it with my name after it.
settings-no-channels = This group asks no channel yet: choose some with the first button.
settings-channels = Which channels may everybody in this group ask about? ✓ marks those that they may already.
settings-none-offered = There is no channel that you could choose: an admin of the bot makes one public, or allows groups to bind it.
settings-sure = { $on ->
    [yes] Answers: only sure ones, with a source for every sentence
   *[other] Answers: also less sure ones
}
settings-who = { $who ->
    [admins] Who asks: only admins of the group
   *[other] Who asks: everybody
}
settings-lang = { $lang ->
    [en] My own sentences: in English
    [ru] My own sentences: in Russian
   *[other] My own sentences: in everybody's own language
}
settings-kept = Saved.
settings-channel-gone = This channel cannot be chosen here now: open the list again.
button-group-channels = Channels
button-cited = Only sure answers
button-anyhow = Also less sure answers
button-admins-ask = Only admins ask
button-everybody-asks = Everybody asks
button-lang = { $lang ->
    [en] Speak English
    [ru] Speak Russian
   *[other] Speak everybody's own language
}
button-bindable = Let groups bind it by themselves
button-unbindable = Groups no longer bind it by themselves
channel-bindable = groups may bind it by themselves
channel-set-bindable = { $may ->
    [yes] Done: the admins of any group may bind { $title } to it.
   *[other] Done: groups no longer bind { $title } by themselves, and where they did, it is closed.
}
menu-settings = Settings of this group

## Admins made in the chat

grant-how = { $grant } makes somebody an admin of the bot, { $revoke } takes it back. The number is what /start or @userinfobot tells them.
grant-list = Admins:
grant-line-owner = • { $who } — from the settings
grant-line = • { $who } — by { $by }, { $date }
grant-ask = Make { $who } an admin of the bot? They will read every channel in private, closed ones too, and do all that you can do here.
revoke-ask = Take the admin rights from { $who }?
grant-owner = { $id } is an admin by the settings of the bot: that is changed in BOT__ADMINS only.
grant-already = { $id } is an admin already.
grant-bot = { $id } is my own number: I cannot be an admin.
revoke-none = { $id } is no admin.
grant-done = Done: { $who } is an admin of the bot now, and has been told.
grant-done-untold = Done: { $who } is an admin of the bot now. I could not tell them: they have to write to me first.
revoke-done = Done: { $who } is no admin of the bot any more.
grant-cancelled = Nothing was changed.
grant-late = This button is out of date: send { $grant } or /revoke again.
granted-told = You are an admin of this bot now: { $help } says what you can do.
revoked-told = You are no longer an admin of this bot.
granted-others = Admin { $by } made { $who } an admin of the bot.
revoked-others = Admin { $by } took the admin rights from { $who }.
button-grant = Make an admin
button-revoke = Take back
button-cancel = Cancel
menu-grant = Make somebody an admin
menu-revoke = Take admin rights back

## Errors, told to admins

errors-told = { $count ->
    [one] { $count } error since I last told you:
   *[other] { $count } errors since I last told you:
}
errors-times = { $line } (×{ $times })
errors-more = The same ones are not told again for some hours. All of them are in the log; /stats says how I am.

## While an answer is made, stopping, limits

live-stage = { $stage ->
    [plan] Thinking about the question…
    [rerank] Sorting what I found…
    [hyde] Looking further…
    [write] Writing the answer; so far in the posts' own words…
   *[search] Searching the posts…
}
live-place = { $count ->
    [one] { $count } question is before yours.
   *[other] { $count } questions are before yours.
}
answer-probable = I am not sure. Closest:
delivery-again = Here is your answer; perhaps it came already…
answer-withdrawn = I did not send this answer: something behind it was changed, deleted or closed meanwhile. Ask again.
button-halt = Stop
stopped-nothing = Stopped. I had not found anything yet.
stopped-waiting = { $count ->
    [one] Stopped: { $count } waiting question will not be answered.
   *[other] Stopped: { $count } waiting questions will not be answered.
}
stop-nothing = There is nothing to stop: I am not working on a question of yours.
stop-not-yours = Only whoever asked can stop this, while it is being answered.
ask-limit = { $minutes ->
    [one] You have asked a lot just now: please go on in { $minutes } minute.
   *[other] You have asked a lot just now: please go on in { $minutes } minutes.
}

## how answers are made
mode-now = How I answer here: { $mode }
mode-name = { $recipe ->
    [auto] I choose
    [direct] Quick
    [agent] Thorough
    [careful] Review every draft
    [mapreduce] Post by post
    [council] Council
    [react] Step by step
   *[other] { $recipe }
}
mode-about = { $recipe ->
    [auto] Most questions get a quick answer, harder ones a thorough one.
    [direct] I search once and answer at once.
    [agent] If I find little, I search again. This takes longer.
    [mapreduce] I take the facts out of each post and answer from them.
    [council] I read and judge each post by itself, then ask again about what is open. Slow.
    [react] I look things up one step at a time. Slow.
   *[other] Press a button to change it.
}
mode-careful-on = I review every draft before I send it.
mode-off-now = This is switched off at the moment, so you get quick answers.
mode-unknown = I can do { $names }. For example: /mode quick
mode-not-yours = Only an admin can change this here.
mode-switch-on = Switch on for everyone: { $mode }
mode-switch-off = Switch off for everyone: { $mode }
mode-share = { $percent } % of chats

## Small talk

smalltalk = { $kind ->
    [greeting] Hi! Ask me anything about the posts of the channels.
    [thanks] You are welcome! Ask me more whenever you like.
    [ack] Good. Ask me if you want to know anything else.
    [bye] Bye! I am here when you have a question.
    [how_are_you] I am fine, thank you! What would you like to know?
    [who_are_you] I am a bot: I answer questions from the posts of the channels, and I show where each sentence comes from.
    [what_can_you_do] Ask me what you like about the posts of the channels: prices, dates, people, news. More is in { $help }.
    [help] Just write your question in your own words, and I look for the answer in the posts. All I can do is in { $help }.
    [joke] I would rather stick to the posts, they can be funny enough. What shall I look up for you?
    [abuse] I am sorry if that was no help. Try asking in other words, and I will look again.
    [emoji] 🙂 Ask me if you want to know anything.
   *[unclear] I did not quite get that. Could you write what you would like to know?
}
smalltalk-about-channel = { $count ->
    [0] No channel is open to you yet: ask the bot's admin to make one public.
    [one] I read this channel for you: { $titles }. Ask me about anything in it.
   *[other] I read these channels for you: { $titles }{ $more ->
        [0] .
       *[other] , and { $more } more.
    } Ask me about anything in them.
}

suggestion-gone = This suggestion is out of date: just write your question.

## talks
talk-new = A new talk: I look back at no earlier question.
talk-off = I remember no earlier questions here. { "/new on" } changes that.
talk-unknown = { $new } begins a new talk; { $new } off and { $new } on say whether I remember earlier questions here.
talk-not-yours = Only admins say here whether I remember earlier questions.
menu-new = Begin a new talk

## Traces, for admins

why-trace = How it was made: { $recipe },
why-trace-unknown = I know no answer of that number, or no longer: send { $why } alone for the last one.

## Follow-ups

answer-understood = I understood: “{ $question }”
