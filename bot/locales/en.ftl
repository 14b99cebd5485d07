# Every English sentence a reader sees. The same ids are in ru.ftl; a test compares them.

## Greeting and help

start-hello = Ask me about your channels. I quote their posts and link each quote. I can pick the wrong one, so open the post when it matters.
start-reads = { $count ->
    [one] I read { $count } channel for you:
   *[other] I read { $count } channels for you:
}
titles-more = … and { $more } more
start-how = Just write your question, in English or Russian.
start-how-group = Write /ask and your question, mention me, or reply to one of my messages.
start-no-admin = I have no admin yet. Your id is { $id }. To become my admin, add this line to the file .env and restart me:
    { $line }
setup-title = Four steps, and people can start asking:
setup-add = { $link } as an admin. I need no rights there.
setup-add-link = Add me to your channel
setup-approve = Choose who can ask about it: /channels
setup-history = Add its older posts: send me an export with /import. New posts reach me on their own.
setup-ask = Ask me something from it.

help-private =
    Just write your question. I look for the answer in the posts; tap a small number to open its post. If I find nothing, I say so.

    /search library in October — find posts
    /verify text — check it against the posts, or forward me a message
    /new — start over, without the earlier questions
    /more — everything else
help-more =
    /why — where my last answer comes from
    /sources — the words of the posts behind it
    /link — a link that asks the same question
    /watch words — tell me of new posts with them
    /watches — what I look out for, and how to stop
    /digest — what is new, every day or week
    /about @channel — what a channel writes about
    /mode — quick or thorough answers
    /stop — stop working on my question
    /sets — several channels under one name
    /start — the channels I read for you

    /privacy — what I keep about you
    /mydata — send me everything you keep
    /forget — erase it
help-admin =
    For admins:
    /channels — channels, and who can ask about them
    /import — load a channel's history from an export
    /bind — in a group: which channels it can ask about
    /unanswered — questions I could not answer
    /synonyms — words that mean the same
    /plan — how a question is searched
    /delete link — take a post out of all answers
    /check link — see whether a post is still there
    /reindex — rebuild the search
    /models — choose the models
    /media — pictures, voices and documents that I read
    /stats — how I am doing
    /grant id, /revoke id — make someone an admin, or undo it
    /token name — let a program ask me (MCP)
help-group =
    /ask question — I answer from this group's channels
    /search words — find posts
    /verify text — check it against the posts, also as a reply
    You can also reply to one of my messages or mention me. Otherwise I stay silent.

    /settings — for the group's admins: which channels I answer from, and how

unknown-command = I do not know this command. See what I can do: /help
not-text = I can only read text. Please write your question.

## Asking

ask-empty = Write the question after the command, for example: { $example }
ask-example = how much is membership?
ask-too-long = That is too long: { $length } characters, and I can take { $limit }. Please shorten it.

none-visible-reader = No channel is open to you yet. Ask the bot's admin to open one.
none-visible-admin = I have no channels yet. Add me to a channel as an admin, or load a channel's history: citegram import result.json
looked-in = Looked in: { $folder }.
no-archive = There are no posts in the folder { $folder }: load a channel's history (citegram import result.json), or check --data (or DATA__DIR).
none-visible-pending = No channel is approved yet. See what is waiting for you: /channels
none-visible-group = This group has no channels yet. Its admins can choose some with /settings, the bot's admins with /bind @channel.

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
source-edited-same-day = edited that day
source-forwarded = { $origin }, forwarded by { $channel }
source-copy = also in { $channel }
source-copies = { $count ->
    [one] also in { $count } channel
   *[other] also in { $count } channels
}
unnamed-channel = channel
unnamed-origin = someone
footer-model = Written by { $model } from these posts

refused = I found nothing about this in the channels I read for you.
refused-sought = I looked for “{ $sought }”: the channels I read for you say nothing about it.
refused-group = I found nothing about this in this group's channels.
refused-unsure = I found no clear answer.
refused-partly = I found no answer, but I could not look everywhere just now. Please ask again in a minute.
nearest = Similar posts:

shortfall = { $stage ->
    [plan] I searched for your question as you wrote it.
    [rewrite] I tried fewer ways of asking than usual.
    [search] Part of the search failed, so something may be missing.
    [dense] I searched by words only: the search by meaning is down.
    [dense-late] I searched by words only: the search by meaning was not ready in time.
    [unembedded] The search by meaning is still being filled: I searched some posts by words only.
    [media] reading files of posts
    [lexical] I searched by meaning only: the search by words is down.
    [lexical-late] I searched by meaning only: the search by words was not ready in time.
    [copies] The same post may appear more than once.
    [chronicle] Counting took too long, so I searched instead. There may be more posts.
    [rerank] The posts may not be in the best order.
    [fetch] I could not read some of the posts, so something may be missing.
    [recipe] I could not finish the thorough answer, so here is the quick one.
    [overlap] This may be about something else: it shares few words with your question.
    [support] I left out some sentences that the posts do not support.
    [judge] I checked this less closely than usual.
    [write] I could not put it into my own words, so this is quoted from the posts.
    [stopped] Stopped. This is what I had so far.
    [membership] { $count ->
        [0] Channels for members could not be looked at now: Telegram does not say which of them you are in. Please ask again in a minute.
        [one] { $count } of your channels could not be looked at now: Telegram does not say whether you are still a member. Please ask again in a minute.
       *[other] { $count } of your channels could not be looked at now: Telegram does not say whether you are still a member. Please ask again in a minute.
    }
   *[other] I skipped one step of the search, so something may be missing.
}

## Trouble

trouble-archive = I cannot reach the posts right now. Please try again later.
trouble-unchecked = I could not check whether you may still see this. Please try again in a minute.
trouble-index = The search is down right now, so I cannot say whether the posts have this. Please try again later.
trouble-timeout = I am slow right now and had to stop. Please ask again in a minute.
trouble-general = Something went wrong on my side. Please try again later.
trouble-reason = For the admin: { $reason }

## Reasons, for admins

archive-not-opened = I cannot open the archive { $file }: check that its folder exists and that I can read and write it.
archive-locked = Another program is using the archive { $file }: close that program and try again.
archive-read-only = I cannot write to the archive { $file }: check the permissions of the file and its folder.
archive-disk-full = The disk with the archive { $file } is full: free some space and try again.
archive-disk-failed = I cannot read or write the disk with the archive { $file }: check the disk.
archive-damaged = The archive { $file } is damaged: stop me and run `citegram restore` to bring back the backup of { $moment } UTC.
archive-lost = The archive { $file } is damaged and has no backup: move the file away, start me again and import your channels' exports.
index-not-written = I cannot write the index to disk ({ $said }): free some space, or make its folder mine.
rebuild-not-started = I could not start rebuilding the search ({ $said }): free some memory and try again.
rebuild-child-ended = Rebuilding the search failed ({ $how }): free some memory and try again, or see { $log }.
rebuild-unreadable = I cannot read the new index in { $folder }: check the disk and rebuild the search again.
vectors-worker-ended = Search by meaning in { $folder } has stopped with { $exit } ({ $said }): check that there is free memory and disk space.
vectors-unusable = I cannot read or write the index for search by meaning in { $folder } ({ $said }): check the disk and the folder's permissions.
vectors-failed = The index for search by meaning in { $folder } failed ({ $said }): restart me, and if that does not help, delete the folder so that I can rebuild it.
vectors-damaged = The index for search by meaning in { $folder } was damaged while in use ({ $said }): restart me, and I will rebuild it.
vectors-disk-full = The disk with the index for search by meaning in { $folder } is full: free some space and try again.
qdrant-silent = The Qdrant server at { $where } does not answer ({ $said }): check that it is running and that QDRANT__URL is right.
qdrant-unknown = The server at { $where } does not look like Qdrant: check QDRANT__URL, and that Qdrant is 1.16 or later.
qdrant-key-refused = The Qdrant server at { $where } refuses the key: check QDRANT__KEY.
qdrant-failed = The Qdrant server at { $where } reports an error ({ $said }): look at its log.
model-fixed = { $setting } is set to { $value }, which overrides the choice here: change it in the settings.
model-server-writes = LLM__URL is set, so that server writes the answers: empty it to choose a model here.
model-missing = The model { $model } is not in { $folder }: run citegram models pull { $pulled }.
model-incomplete = The model { $model } in { $folder } has no { $part }: run citegram models pull { $pulled } again.
model-damaged = The file { $part } of the model { $model } is damaged: run citegram models pull { $pulled } again.

## Channels (admins)

admins-only = { $admins ->
    [0] Only this bot's admins can do this. /start says how to become one.
   *[other] Only this bot's admins can do this.
}
channels-none = I have no channels yet. Add me to a channel as an admin, or send me a channel's export.
channel-count = { $count ->
    [one] { $count } channel
   *[other] { $count } channels
}
channels-choose = Choose a channel to change who can ask about it.
channel-posts = { $count ->
    [one] { $count } post
   *[other] { $count } posts
}
channel-state = { $state ->
    [pending] waiting for your approval
    [paused] paused
   *[other] active
}
channel-visibility = { $visibility ->
    [public] for everyone
    [members] for members
   *[other] for admins
}
channel-ask-visibility = Who can ask me about this channel?
channel-members-note = Members are people who are in the channel when they ask me in private. To check that, I must be an admin there. In a group with this channel, everyone can ask.
channel-set = Done: { $title } is { $visibility }.
channel-gone = I no longer have this channel.
button-public = Everyone
button-members = Members
button-admins = Admins only
button-back = ‹ Back
button-earlier = ‹ Earlier
button-later = Later ›

channel-added = { $state ->
    [pending] I was added to { $title }. Nobody can ask about it until you choose who may:
    [paused] I was added to { $title }, which is paused: I keep its new posts but do not search them.
   *[other] I was added to { $title }. From now on I read its new posts.
}
added-by = Added by { $name } (id { $id }).

## Channels in groups

bind-how = Write the channel after the command: { $example }
bind-unknown = I do not know the channel { $name }. To see all of them, send me /channels in private.
bind-pending = { $title } is not approved yet. Send me /channels in private to approve it.
bind-done = Done: everyone in this group can now ask about { $title }.
bind-undone = Done: this group can no longer ask about { $title }.
bind-list = { $count ->
    [one] This group can ask about { $count } channel:
   *[other] This group can ask about { $count } channels:
}
bind-none = This group has no channels yet.
bind-in-group = This only works in groups. Add me to one and send it there.

## Menu

menu = { $command ->
    [ask] Ask a question
    [channels] Channels and who can ask about them
    [delete] Take a post out of all answers
    [check] Is a post still there?
    [reindex] Rebuild the search
    [stats] How I am doing
    [import] Import an export of a channel
    [search] Find posts
    [models] Choose the models
    [verify] Check a text against the posts
    [why] Why did I answer so?
    [sources] The posts behind my answer
    [settings] Settings of this group
    [grant] Make someone an admin
    [token] Let a program ask me
    [revoke] Take admin rights away
    [new] Start a new conversation
    [media] Pictures, voices and documents that I read
    [unanswered] Questions I could not answer
    [synonyms] Words that mean the same
    [plan] How a question is searched
    *[help] What I can do
}

## Why an answer says what it says

why-question = You asked: “{ $question }”
why-gone = { $title } · { $date } — this post is gone, or closed to you now
why-changed = Changed { $date }:
why-changed-after = Changed after the answer, { $date }:
why-changed-before = Changed before the answer, { $date }:
why-changed-more = { $more ->
    [one] … and { $more } more change
   *[other] … and { $more } more changes
}
why-changed-spaces = only spaces and line breaks
why-unknown-before = I do not know what it said before the edit.
why-probable = I was not sure about this answer.
why-judged = { $verdict ->
    [yes] The model judged: this answers the question ({ $odds }).
   *[no] The model judged: this does not answer the question ({ $odds }).
}
why-read-as = I read “{ $typed }” as “{ $read }”.
why-aliases = I also looked for other names: { $pairs }
why-others = Other posts I looked at:
why-refused = { $count ->
    [one] I looked at this post, but it does not answer the question:
   *[other] I looked at these posts, but they do not answer the question:
}
why-nothing-found = I found no posts about it.
why-closed = You can no longer see the posts behind this answer.
why-none = You have not asked me anything here yet. Ask first, then send { $why }.
why-unknown = This message is not one of my answers. Reply to an answer with { $why }.
why-not-yours = Someone else asked this. Ask it yourself, then send { $why }.

## The life of a channel (admins)

channel-adder-told = Thank you for adding me to { $title }! My admin has to approve it first. Until then nobody can ask about it.
channel-adder-refused = Too many channels are waiting for approval, so I left { $title }. Please ask my admin to add me.
channel-thrown-out = I am no longer an admin of { $title }, so I do not get its new posts. I can still search the old ones. To pause or remove it: /channels
removed-by = Removed by { $name } (id { $id }).
channel-last = last post { $date }
channel-left = I am no longer in it
channel-outside = history imported, I do not see new posts
channel-guarded-in = { $count ->
    [one] with { $count } protected or paid post
   *[other] with { $count } protected or paid posts
}
channel-guarded-out = { $count ->
    [one] without { $count } protected or paid post
   *[other] without { $count } protected or paid posts
}
channel-unread = { $count ->
    [one] search by words: { $count } change behind
   *[other] search by words: { $count } changes behind
}
channel-unembedded = { $count ->
    [one] search by meaning: { $count } change behind
   *[other] search by meaning: { $count } changes behind
}
channel-gaps = { $count ->
    [one] { $count } gap
   *[other] { $count } gaps
}
channel-missing = Posts may be missing: { $times }.
channel-set-guarded = { $shown ->
    [yes] Done: I now search the protected and paid posts of { $title } too.
   *[other] Done: I now leave out the protected and paid posts of { $title }.
}
channel-not-approved = { $title } is not approved yet. First choose who can ask about it.
channel-paused = Paused: I no longer search { $title }, but I keep its new posts.
channel-resumed = I search { $title } again.
channel-remove-ask = { $count ->
    [0] Remove { $title }? It has no posts. Groups that use it will lose it.
    [one] Remove { $title }? Its { $count } post is deleted for good, with every version. Groups that use it will lose it.
   *[other] Remove { $title }? Its { $count } posts are deleted for good, with every version. Groups that use it will lose it.
}
channel-remove-late = This is too old. Open the channel again: /channels
channel-removed = { $count ->
    [0] Removed: { $title }.
    [one] Removed: { $title }. Its { $count } post is out of the search, and I am deleting its data.
   *[other] Removed: { $title }. Its { $count } posts are out of the search, and I am deleting their data.
}
channel-removed-inside = I am still in the channel. After its next post it will wait for your approval again.
channel-removing = Removing { $title } …
channel-left-now = I have left the channel.
button-pause = Pause
button-resume = Resume
button-guarded-in = Search protected and paid posts too
button-guarded-out = Leave out protected and paid posts
button-remove = Remove…
button-remove-yes = Yes, delete all of it
button-leave = Leave the channel
button-history = Older posts…
button-history-all = Fetch all of them
button-history-days = { $days ->
    [30] Only the last 30 days
   *[other] Only the last year
}
button-stop-work = Cancel
button-history-refresh = Refresh
button-history-undo = { $count ->
    [one] Put { $count } deleted post back
   *[other] Put { $count } deleted posts back
}
history-counting = Counting the posts of { $title } …
history-estimate = { $count ->
    [0] { $title } shows me no posts. Make me an administrator there, then try again.
   *[other] { $title } has at most { $count } posts. Fetching all of them takes about { $minutes } min. The newest come first, and you can ask me meanwhile.
}
history-progress = { $state ->
    [running] { $title }: { $percent }% fetched, { $count } posts so far.
    [paused] { $title }: paused at { $percent }%, { $count } posts so far.
    [cancelled] { $title }: stopped at { $percent }%. The { $count } posts I fetched stay.
   *[done] { $title }: done, { $count } posts fetched.
}
history-failed = { $title }: I could not go on. { $reason }
history-restored = { $count ->
    [one] { $count } post is back.
   *[other] { $count } posts are back.
}
history-group = An admin of this bot asked me to read the earlier messages of this group, so that they can be found.
history-group-unreached = I cannot write to this group, so I do not read its earlier messages. Let me write there, then try again.
history-ways = Two ways to add the older posts. By themselves: whoever runs me gets api_id and api_hash at my.telegram.org, puts them into .env as HISTORY__API_ID and HISTORY__API_HASH, and restarts me. By hand:
button-stale = This button no longer works. Please send the command again.

## Posts that go (admins)

delete-how = Send { $command } with links to posts, or reply with it to a post you forwarded to me.
delete-most = Please send at most { $most } links at a time.
delete-unknown = { $link } — I do not have this post, or it is already deleted.
delete-sure = { $count ->
    [one] Take this post out of all answers? The channel itself stays as it is.
   *[other] Take these { $count } posts out of all answers? The channel itself stays as it is.
}
delete-done = { $count ->
    [one] Done: I no longer use this post. It comes back only if it is edited in the channel.
   *[other] Done: I no longer use these posts. A post comes back only if it is edited in the channel.
}
delete-kept = Nothing was deleted.
delete-again = These posts have changed since. Send /delete again.
button-delete = Delete
button-keep = Keep
check-told = { $where ->
    [there] It is there.
    [gone] It is gone from the channel, so I leave it out until it comes back.
    [uncopied] Telegram does not let me copy it, so I cannot tell whether it is there. Nothing was changed.
    [closed] I cannot look: I am not in this channel, or do not have the rights. Nothing was changed.
   *[unsure] Telegram gave no clear answer. Nothing was changed: try again later.
}
check-back = It is there, and I use it in answers again.

## Rebuilding the index (admins)

reindex-ask = Rebuild the search from all the posts? It takes a few minutes, and I keep answering meanwhile.
button-rebuild = Rebuild it
reindex-nothing = Nothing was changed.
reindex-unknown = I do not know the channel { $name }. See all of them: /channels
reindex-busy = The search is already being rebuilt. Wait for it to finish, or cancel it.
reindex-over = This rebuild is already over.
reindex-running = Rebuilding the search
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
    [one] Done: the search is rebuilt ({ $count } post).
   *[other] Done: the search is rebuilt ({ $count } posts).
}
reindex-renewed = { $count ->
    [one] I am preparing { $count } post again for the search by meaning.
   *[other] I am preparing { $count } posts again for the search by meaning.
}
reindex-cancelled = Cancelled. The search works as before.
reindex-failed = The search was not rebuilt and works as before. { $reason }

## Gaps, jobs and /stats (admins)

gaps-found = { $count ->
    [one] Some posts may be missing: for a while Telegram sent me none.
   *[other] Some posts may be missing: Telegram went quiet { $count } times.
}
gap-before = before { $until }
date-between = { $since } – { $until }
gaps-fill =
    To add them: in Telegram Desktop open the channel, ⋮ → Export chat history, format JSON, no media. Then send me its result.json with /import, or run citegram import result.json.
gaps-fetch = I am fetching what is missing from Telegram. /channels shows how far I am.
posts-missing = { $count ->
    [one] In { $title } { $count } post seems deleted, a large part of the channel. I keep it for now and look again in an hour.
   *[other] In { $title } { $count } posts seem deleted at once. I keep them for now and look again in an hour.
}
mended = Nightly check: the search did not match the posts, and I am fixing it (added again: { $again }, removed: { $out }).
job-failing = A background task failed: { $job }. { $reason }
job = { $name ->
    [inbox] taking in new posts
    [history] looking for deleted and edited posts
    [memory] forgetting old conversations
    [heartbeat] contact with Telegram
    [gaps] looking for gaps
    [save] saving the index
    [forget] erasing old questions
    [check] nightly check
    [damage] checking the archive
    [backup] backup
    [lexical] search by words
    [dense] search by meaning
    [copies] finding copies of posts
    [answers] sending answers
    [watches] telling of new posts
    [edits] noting edits in answers
    [digests] sending digests
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
stats-history = { $state ->
    [running] Fetching earlier posts: { $percent }%, see /channels
    [paused] Fetching earlier posts is paused at { $percent }%: /channels
   *[failed] Earlier posts of a channel could not be fetched: /channels
}
stats-gaps = { $count ->
    [one] Posts may be missing in { $count } place: /channels
   *[other] Posts may be missing in { $count } places: /channels
}
stats-today = { $waiting ->
    [0] Questions today: { $count } (sure { $sure }, not sure { $unsure }, not found { $refused }, failed { $failed })
   *[other] Questions today: { $count } (sure { $sure }, not sure { $unsure }, not found { $refused }, failed { $failed }, waiting { $waiting })
}
stats-week = Last 7 days: { $count } (sure { $sure }, not sure { $unsure }, not found { $refused }, failed { $failed })
stats-disk = Disk: { $free } free; posts { $archive }, search { $indexes }, backups { $backups }
stats-backup = Last backup: { $ago } (kept: { $count })
stats-no-backup = No backup yet: the first is made tonight
stats-backups-off = Backups are switched off
stats-job-fails = ⚠ Failing: { $job } (last { $ago }, { $count } times). { $reason }
stats-job-failed = Failed { $ago }, fine again: { $job }. { $reason }

## Importing an export (admins)

import-how =
    Send me a channel's export as a document with the caption { $example }, or reply with { $example } to one you have already sent.

    In Telegram Desktop: open the channel, ⋮, Export chat history, without media, format “machine-readable JSON”. Send its result.json.
import-busy = Another import is running. Wait for it to finish, or stop it.
import-file = the document
import-fetching = Fetching { $file } …
import-at = Importing { $file }: { $percent } %
import-stopping = Stopping …
import-over = This import is over.
import-stopped = I stopped importing { $file }. What I read so far is kept; send it again to continue.
import-interrupted = I was restarted while importing { $file }. What I read so far is kept; send it again to continue.
import-done = { $file } is imported.
import-counts = New: { $new } · edited: { $edited } · unchanged: { $unchanged } · left out: { $skipped } · deleted: { $deleted }
import-who = So far only admins can ask about { $title }. Who else may?
import-who-many = { $count ->
    [one] { $count } channel is new. Only admins can ask about it until you decide: /channels
   *[other] { $count } channels are new. Only admins can ask about them until you decide: /channels
}
import-too-big = { $file } is over 20 MB, more than Telegram lets me fetch. Import it on the machine I run on: citegram import result.json
import-not-fetched = Telegram did not give me { $file }. Please send it again.
import-far = My Bot API server keeps { $file } where I cannot read it. Import it on the machine I run on: citegram import result.json
import-disk = My disk is full or read-only. Free some space and send the file again.
import-too-heavy = { $file } is too large to read here. Import it on the machine I run on: citegram import result.json
import-too-long = { $file } took too long to read. Import it on the machine I run on: citegram import result.json
import-zip = { $file } is a zip: unpack it and send the result.json that is in it.
import-cut = { $file } is cut off: export the chat again, or send the whole file.
import-empty = { $file } is empty: export the chat again.
import-not-json = { $file } is not JSON. Please send the result.json that Telegram Desktop writes as “machine-readable JSON”.
import-deep = { $file } is nested too deeply to be a Telegram export: export the chat again.
import-no-export = { $file } is not an export of Telegram Desktop. Please send the result.json of an exported chat.
import-html = { $file } is HTML: export the chat again with Telegram Desktop, format “Machine-readable JSON”, and send me its result.json.
import-nameless = { $file } does not say which chat it is from: export the chat again.
import-private = { $file } only has private chats, which I do not import: export a channel instead.
import-other-chat = { $file } is not from the channel you named: check the name, or leave it out.
import-refused = I could not import { $file }: { $reason }
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
    [one] { $title }: left out { $count } message from before it became a supergroup, because no link leads to it.
   *[other] { $title }: left out { $count } messages from before it became a supergroup, because no links lead to them.
}
import-note-broken = { $count ->
    [one] { $title }: left out { $count } entry that could not be read.
   *[other] { $title }: left out { $count } entries that could not be read.
}
import-note-unread = { $count ->
    [one] { $title }: I did not read { $count } message, because I do not know its kind ({ $kinds }).
   *[other] { $title }: I did not read { $count } messages, because I do not know their kinds ({ $kinds }).
}
import-note-text-kept = { $count ->
    [one] { $count } post has no text in the export, so I kept the text that I know.
   *[other] { $count } posts have no text in the export, so I kept the texts that I know.
}
import-note-no-links = { $title }: Telegram has no links to messages of such a chat, so answers name only the chat and the day.
import-note-public = { $title }: the channel is public, but its @name is not in the export. Send it again with { $command } @name to make its links work for everyone.
import-note-kept = { $count ->
    [one] { $title }: I kept { $count } post that is not in this full export. To remove it, export the channel on its own.
   *[other] { $title }: I kept { $count } posts that are not in this full export. To remove them, export the channel on its own.
}
import-notes-more = { $count ->
    [one] … and { $count } more note.
   *[other] … and { $count } more notes.
}
button-stop = Stop

## Copies

source-copies-first = { $count ->
    [one] first in { $first }, { $when }
   *[other] also in { $count } channels, first { $first }, { $when }
}

## Search for posts

search-empty = Write what to look for after the command, for example: { $example }
search-example = library in October
search-too-long = That is too long: { $length } characters, and I can take { $limit }. Please shorten it.
search-common = These words are too common. Add one that says what the posts are about.
search-busy = One moment, I am still busy with your last searches.
search-for = Search: { $what }
search-all = all posts
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
search-different = different: { $count }
search-similar = similar: { $count }
search-none-whole = No post has all these words. Similar ones: { $count }
search-near = Similar, or without some of the words:
search-page = page { $page } of { $pages }
search-quoted = “{ $text }”
search-or = or
search-nothing = I found no such posts. Try fewer words, or other ones.
search-nothing-quoted = I found no post with exactly these words. Try it without the quotation marks.
search-nothing-filtered = I found no such posts. Try it without { $filters }.
search-nothing-partly = I found no such posts, but I could not search everything.
search-not-yours = Only the person who searched can turn these pages. Start your own search: /search
search-stale = This search is too old. Please search again: /search
search-changed = The posts have changed, so the pages may have moved.

## Models

model-use = { $use ->
    [writer] Writes the answers
    [embedder] Search by meaning
    [reranker] Sorts the posts
   *[speech] Understands speech
}
models-used = In use:
models-unused = No model is in use. I search by words and quote the posts.
models-press = Tap a model to switch to it:
models-none = No models yet. To get one, run this on the machine: { $pull }
models-nobody = none, I quote the posts
models-loading = Switching to { $name }. A large model takes a minute; questions wait until then.
models-now = { $use } — now { $name }.
models-next = { $use } — { $name } after my next start. I then read all the posts again while the old search keeps working.
models-beside = { $use } — { $name } once I have read all the posts again. Until then the old search answers.
models-embedding = I am reading the posts again with { $name }: { $done } of { $total }. Until then { $live } answers.
models-refused = Nothing has changed. { $reason }
models-pull = Download { $name } ({ $gigabytes } GB), which judges answers
models-pulling = Downloading { $name }: { $percent } %. You can keep asking.
models-need-llama = A model needs llama.cpp here. Run this on the machine (it compiles for some minutes and needs a C++ compiler), restart me and try again: { $command }
models-gone = This list is too old. Please send /models again.

## Receipts: the cited words, quoted from the post

receipt = ❝ Quote { $number }
receipt-closed = This post is from a channel that is closed to you here.
receipt-shown = It is already in the chat, a little below.
receipt-gone = This post is deleted, or closed to you now, so I cannot quote it.
receipt-gone-there = Telegram cannot find this post. It may be deleted; open the link to check.
receipt-changed = The post was edited after my answer and no longer says this.
receipt-changed-unknown = The post was edited since, and I do not have its earlier words. Open the link to read it now.
receipt-protected = The channel does not let its posts be quoted, so here are the words as text.
receipt-outside = I am not in this channel, so here are the words as I have them.
receipt-refused = Telegram would not quote these words, so here they are as text. The post may have been edited.

## Verify

verify-empty = Write what to check after the command, for example: { $example }. Or reply to a message with it, or forward one to me.
verify-example = the ferry leaves at 7:30
verify-not-text = I can only check text. Please forward me a message with text.
verify-nothing = There is nothing to check here. Write a sentence that states something.
verify-same = This is the post of { $day } in { $channel }. { $state ->
    [changed] A later post has changed it, see below.
    [holds] I found no later post that changes it.
   *[unknown] What I found about it:
}
verify-claim = “{ $claim }”
verify-label = { $label ->
    [supported] The posts say so
    [contradicted] The posts say otherwise
    [contested] The posts disagree
   *[other] The posts do not say this
}
verify-outdated = The posts said so until { $day }
verify-partly = I did not find this, but I could not search everything.
verify-superseded = A later post says otherwise:
verify-before = Earlier posts said so:
verify-against = { $count ->
    [one] Another post says otherwise:
   *[other] Other posts say otherwise:
}
verify-sources = { $count ->
    [one] { $count } independent source, first { $first }, { $when }
   *[other] { $count } independent sources, first { $first }, { $when }
}
verify-left = { $count ->
    [one] I did not check { $count } more statement. Send it separately.
   *[other] I did not check { $count } more statements. Send them separately.
}

## After an answer

button-sources = Sources
button-why = Why?
button-link = Link
button-more = More
button-search = Search these words
button-rephrase = Ask another way
rephrase-hint = Try the words that a post would use: a name, a place, a date. Ask about one thing at a time.
button-copy = Copy
button-share = Share
share-corrected = ✏️ A post behind this was changed since. What it no longer says is left out.
button-shorter = Shorter
button-deeper = Deeper
button-reason = { $reason ->
    [wrong] It is wrong
    [outdated] Out of date
    [source] Wrong source
   *[other] Not what I asked
}
vote-good = Thank you! You can change your vote.
vote-bad = Noted. What is wrong with it?
vote-reason = Thank you, noted.
vote-same = You have already voted that way.
answer-gone = I no longer have this answer. Please ask again.
answer-changed = A post behind this answer has changed or is closed to you now. Please ask again.
answer-already = It is already below.
answer-not-yours = This is for the person who asked. Ask me yourself!
answer-not-member = This is for members of this group.
sources-none = This answer quotes no post: the posts do not say it outright.
sources-counted = I counted this over all the posts that I read for you.
remark-sure = My answer stands on these posts. Whether they are right I cannot know.
remark-unsure = I am not quite sure: this is what comes nearest to your question.
remark-changed = Not any more: a post behind my answer was changed, deleted or closed since.
remark-when = { $count ->
    [1] This answer is from a post of { $date }.
   *[other] The first sentence of this answer is from a post of { $date }.
}
remark-no-more = I have looked deeper already: that is all that I found. Ask about one detail of it.
sources-changed = This post has changed since my answer. Open it to read it now.
complaint = I am sorry. I am a bot: I cannot connect you to a person, and I can pick the wrong post.
complaint-which = What was wrong with my answer to “{ $question }”?
complaint-channels = The answer came from: { $channels }
complaint-contact = To reach a person: { $contact }
complaint-nobody = No contact is set here. The owner sees how often answers get 👎.
other-none = I have no other post for this question. Try asking it in other words.
quotes-language = Quotes stay in the language of their posts.
shorter-note = This is only the beginning. The whole answer is above.
shorter-none = The answer is one quote: it does not get shorter.
deeper-begins = { $count ->
    [one] Looking deeper: up to { $count } sentence this time.
   *[other] Looking deeper: up to { $count } sentences this time.
}
deeper-note = { $count ->
    [0] The posts say no more about this.
    [one] I looked deeper and found { $count } more post.
   *[other] I looked deeper and found { $count } more posts.
}
link-whole = This link opens our chat and asks your question. Whoever opens it sees the question, and an answer from the channels open to them.
link-kept = This link opens our chat and asks your question. Anyone with the link can read the question; /forget switches it off.
link-asks = You followed a link that asks: “{ $question }”
stats-votes = Votes in 7 days: 👍 { $good }, 👎 { $bad } (wrong { $wrong }, out of date { $outdated }, not what was asked { $other }, wrong source { $source })

## Privacy

privacy-what = What I keep about you on my owner's machine:
privacy-brief = { $days ->
    [one] I keep your questions, and which posts answered them, for { $days } day. After that only how many there were, when, and whether I had an answer.
   *[other] I keep your questions, and which posts answered them, for { $days } days. After that only how many there were, when, and whether I had an answer.
}
privacy-unanswered = • questions I could not answer: admins see how many and what about, in words that the posts have too; your own words only once two people have asked the same, and never who asked. A pinned answer keeps none of the words. They go with your questions, or with /forget
button-details = Details
privacy-questions = { $days ->
    [one] • your questions, with your Telegram id, the chat, the time, the passages that answered them and the posts I looked at: { $days } day. If a model wrote the answer, its sentences too. After that only that something was asked then, and whether I was sure of an answer.
   *[other] • your questions, with your Telegram id, the chat, the time, the passages that answered them and the posts I looked at: { $days } days. If a model wrote the answer, its sentences too. After that only that something was asked then, and whether I was sure of an answer.
}
privacy-votes = • your 👍 and 👎 with the reason, and your links to long questions: as long as your questions. Admins see how many votes there are, not whose
    • the settings of this chat, such as its time zone: until they are changed
privacy-alone = • what only you see in a group: like your other questions. If a post behind it changes, I correct it where Telegram lets me; the message itself goes when Telegram drops it, not with /forget
privacy-updates = • each message to me: until I have handled it, usually a moment. If I could not read it: as long as your questions. Its number: 48 hours. An answer on its way to you: until it arrives
privacy-watches = • what you asked me to look out for, until you stop it, and for 30 days the numbers of the posts that I told you of
privacy-memberships = • which of my channels and groups you are in: until you leave them, or as long as your questions
privacy-programs = • tokens of programs that ask in your name: what an admin called each, when it was made and last used, and who made it, until it is revoked. Their questions are kept like yours
privacy-digests = • when you want a digest and of which channels, until you stop it
privacy-talks = { $minutes ->
    [one] • your last questions and the names in their answers, to understand follow-ups: { $minutes } minute, or until /new
   *[other] • your last questions and the names in their answers, to understand follow-ups: { $minutes } minutes, or until /new
}
privacy-memory = • in memory only: how I searched and what I answered, 10 minutes; what a model judged or wrote and I left out, a day; which questions I offered you, until /new
privacy-backups = { $count ->
    [0] There are no backups.
    [one] Every night I back all this up and keep { $count } copy. /forget does not change it, but the next one replaces it.
   *[other] Every night I back all this up and keep { $count } copies. /forget does not change them, but all of them are replaced after that many nights.
}
privacy-not = Not kept: your name, what you look for with /search, and what you type after my name in other chats.
privacy-log = { $texts ->
    [yes] The log holds the texts of questions, because an admin has switched that on.
   *[other] The log holds no texts of questions or answers, only numbers, times and failures.
}
privacy-where = { $server ->
    [yes] Your questions and the posts I find go to a server my admin chose, for the model or the search. Whoever runs me can read what I keep.
   *[other] Nothing leaves the machine I run on, except through Telegram. Whoever runs me can read what I keep.
}
privacy-do = /mydata sends you all of it, /forget erases it.
forget-nothing = I keep nothing about you.
forget-nothing-here = I keep nothing about you from this group.
forget-ask = Erase everything I keep about you, from all chats? This cannot be undone.
forget-ask-here = Erase everything I keep about you from this group? In a private chat, /forget erases it all.
forget-questions = { $count ->
    [one] { $count } question with its answer
   *[other] { $count } questions with their answers
}
forget-pending = { $count } of them not answered yet
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
forget-watches = { $count ->
    [one] { $count } thing I look out for
   *[other] { $count } things I look out for
}
forget-memberships = { $count ->
    [one] the chat you were seen in
   *[other] { $count } chats you were seen in
}
forget-tokens = { $count ->
    [one] { $count } token of a program that asked in your name
   *[other] { $count } tokens of programs that asked in your name
}
forget-digests = { $count ->
    [one] { $count } digest
   *[other] { $count } digests
}
forget-talks = { $count ->
    [one] { $count } question remembered for follow-ups
   *[other] { $count } questions remembered for follow-ups
}
forget-yes = Erase
forget-kept = Nothing was erased.
forget-done = Erased:
forget-rest = The messages in this chat are Telegram's: delete them there. { $backups ->
    [0] There are no backups.
    [one] The nightly backup ({ $backups }) still holds it until the next one replaces it.
   *[other] The nightly backups ({ $backups }) still hold it for that many nights.
}
forget-not-yours = This is for the person who sent the command. Send /forget yourself.
forget-late = This is too old, or already done. Send /forget again.
forget-masked = I cannot tell who you are here. Write to me in private, or under your own name.
mydata-here = Your questions, answers, votes and links, as I keep them. Words from posts that are closed to you now are left out.
mydata-private = I only send this in private. Write /mydata to me there.

## Groups, by their own admins

group-admins-only = Only this group's admins can do this, under their own names. I cannot tell anonymous admins apart.
group-admins-ask = In this group only its admins can ask me, under their own names. In a private chat everyone can.
settings-title = Settings of this group
settings-no-channels = This group has no channels yet. Choose some with the first button.
settings-channels = Which channels can everyone in this group ask about? ✓ marks the chosen ones.
settings-none-offered = There is no channel to choose yet. An admin of the bot can make one public, or let groups choose it.
settings-sure = { $on ->
    [yes] Answer even when not sure: no
   *[other] Answer even when not sure: yes
}
settings-who = { $who ->
    [admins] Who can ask: admins only
   *[other] Who can ask: everyone
}
settings-answers = { $who ->
    [asker] Who sees an answer: only the person who asked
   *[other] Who sees an answer: everyone
}
settings-lang = { $lang ->
    [en] Language: English
    [ru] Language: Russian
   *[other] Language: same as the question
}
settings-zone = Time zone: { $zone }
button-zone = Time zone
zone-now = Dates and times here: { $zone }. Tap another place, or type one: { $example }
zone-unknown = I do not know this time zone. Write it like this: { $example }
zone-name = { $zone ->
    [New_York] New York
    [Los_Angeles] Los Angeles
   *[other] { $zone }
}
open-private-chat = I can only tell you this in private: open a chat with { $bot } and ask me there.
answer-alone = Only you see this answer: not everyone here may read its posts.
button-show-all = Show to all
show-all-begins = I am asking again for the whole group.
show-all-closed = Not everyone here may read the posts of this answer, so I showed the group nothing.
show-all-known = The group has my answer already: what only you may read stays with you.
settings-kept = Saved.
settings-channel-gone = This channel is not available here any more. Open the list again.
button-group-channels = Channels
button-cited = { $on ->
    [yes] Answer even when not sure
   *[no] Answer only when sure
}
button-admins-ask = { $on ->
    [yes] Let everyone ask
   *[no] Let only admins ask
}
button-answer-asker = { $on ->
    [yes] Show answers to everyone
   *[no] Show answers only to who asked
}
button-lang = { $lang ->
    [en] Language: English
    [ru] Language: Russian
   *[other] Language: same as the question
}
button-bindable = Let groups choose it
button-unbindable = Do not let groups choose it
channel-bindable = groups may choose it
channel-set-bindable = { $may ->
    [yes] Done: the admins of any group can choose { $title } for it.
   *[other] Done: groups can no longer choose { $title }, and those that did have lost it.
}

## Admins made in the chat

grant-how = { $grant } makes someone an admin of the bot, { $revoke } undoes it. They can get their id from @userinfobot.
grant-list = Admins:
grant-line-owner = • { $who } — from the settings
grant-line = • { $who } — by { $by }, { $date }
grant-ask = Make { $who } an admin of the bot? They will be able to read every channel in private and do all that you can do here.
revoke-ask = Take admin rights away from { $who }?
grant-owner = { $id } is an admin in the settings. Only BOT__ADMINS can change that.
grant-already = { $id } is already an admin.
grant-bot = { $id } is me: I cannot be an admin.
revoke-none = { $id } is not an admin.
grant-done = Done: { $who } is now an admin of the bot, and I have told them.
grant-done-untold = Done: { $who } is now an admin of the bot. I could not tell them: they have to write to me first.
revoke-done = Done: { $who } is no longer an admin of the bot.
grant-cancelled = Nothing was changed.
grant-late = This button is too old. Send /grant or /revoke again.
granted-told = You are now an admin of this bot. See what you can do: /help
revoked-told = You are no longer an admin of this bot.
granted-others = Admin { $by } made { $who } an admin of the bot.
revoked-others = Admin { $by } took admin rights away from { $who }.
button-grant = Make an admin
button-revoke = Take back

## Programs that ask

token-how = A program, such as an assistant that speaks MCP, asks me with a token. { $own } makes one that may read what you may read, { $other } one for somebody else. Its questions count as theirs.
token-off = Programs cannot ask me yet: set MCP__LISTEN, such as 127.0.0.1:8770, and start me again.
token-name = Give the program a name of up to { $limit } letters.
token-made = Put this into the settings of { $name }. I show it only this once:
token-use = Whoever has it reads what { $who } may read, so delete this message once it is there. Programs without MCP send the same header to /ask.
token-made-told = An admin made a token with which the program { $name } asks me in your name: it reads what you may read, and its questions count as yours. /mydata shows them, /forget ends it.
token-full = There are { $count } tokens, and no room for more: revoke one first.
token-line = • { $name } — reads as { $who }; made by { $by }, { $date }; { $used ->
    [never] not used yet
   *[other] last used { $used }
}
token-revoke = Revoke: { $name }
token-revoked = Revoked: it no longer works.
token-gone = This token is revoked already.
timeline-question = timeline: { $subject }
button-cancel = Cancel

## Errors, told to admins

errors-told = { $count ->
    [one] { $count } error since my last message:
   *[other] { $count } errors since my last message:
}
errors-times = { $line } (×{ $times })
errors-more = I will not repeat these for a few hours. All of them are in the log; /stats shows how I am doing.

## While an answer is made, stopping, limits

live-stage = { $stage ->
    [plan] Thinking about your question…
    [rerank] Sorting what I found…
    [hyde] Looking further…
    [write] Writing. For now, from the posts…
    [read] Reading the posts…
    [calculate] Calculating…
    [check] Checking against the posts…
   *[search] Searching the posts…
}
live-place = { $count ->
    [one] { $count } question is ahead of yours.
   *[other] { $count } questions are ahead of yours.
}
answer-caveat = { $likely ->
    [yes] The answer is probably here
   *[no] The answer may be here
  }{ $date ->
    [none] :
   *[other] , in a post of { $date }:
  }
answer-further = Also found:
delivery-again = Here is your answer. You may already have it…
answer-withdrawn = I did not send this answer: a post behind it was changed, deleted or closed just now. Please ask again.
button-halt = Stop
stopped-nothing = Stopped. I had not found anything yet.
stopped-waiting = { $count ->
    [one] Stopped. I will not answer { $count } waiting question.
   *[other] Stopped. I will not answer { $count } waiting questions.
}
stop-nothing = There is nothing to stop: I am not working on a question of yours.
stop-not-yours = Only the person who asked can stop this.
ask-limit = { $minutes ->
    [one] That was a lot of questions! Please ask again in { $minutes } minute.
   *[other] That was a lot of questions! Please ask again in { $minutes } minutes.
}

## how answers are made
mode-now = How I answer here: “{ $mode }”
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
    [council] I judge each post on its own, then search for what is missing. Slow.
    [react] I look things up one step at a time. Slow.
   *[other] Press a button to change it.
}
mode-careful-on = I review every draft before I send it.
mode-off-now = This is switched off at the moment, so you get quick answers.
mode-too-slow = Not offered, as the model is too slow on this machine to end them in time: { $names }. Raise ANSWER__SECONDS, or take a faster model.
mode-word = { $recipe ->
    [auto] auto
    [direct] quick
    [agent] thorough
   *[other] { $recipe }
}
mode-unknown = I do not know this way of answering. Write /mode and one of these: { $names }
mode-not-yours = Only an admin can change this here.
mode-switch-on = Switch on for everyone: { $mode }
mode-switch-off = Switch off for everyone: { $mode }
mode-form = { $rich ->
    [yes] My answers have footnotes and tables. Old Telegram apps do not show such messages.
   *[no] My answers are ordinary messages.
}
button-form = { $rich ->
    [yes] Ordinary messages
   *[no] Footnotes and tables
}

## Small talk

smalltalk = { $kind ->
    [greeting] Hi! Ask me anything about your channels.
    [thanks] You are welcome! Ask me more whenever you like.
    [ack] Good. Ask me if you want to know anything else.
    [bye] Bye! I am here when you have a question.
    [how_are_you] I am fine, thank you! What would you like to know?
    [who_are_you] I am a bot. I answer questions from the posts of your channels and show where each sentence comes from.
    [what_can_you_do] Ask me about anything in your channels: prices, dates, people, news. To see more: { $help }
    [help] Just write your question in your own words, and I will look for the answer in the posts. To see more: { $help }
    [joke] I leave the jokes to the posts. What shall I look up for you?
    [abuse] I am sorry that was no help. Try other words, and I will look again.
    [emoji] 🙂 Ask me if you want to know anything.
   *[unclear] I did not quite get that. What would you like to know?
}
smalltalk-about-channel = { $count ->
    [0] No channel is open to you yet: ask the bot's admin to make one public.
    [one] I read this channel for you: { $titles }. Ask me about anything in it.
   *[other] I read these channels for you: { $titles }{ $more ->
        [0] .
       *[other] , and { $more } more.
    } Ask me about anything in them.
}

suggestion-gone = This question is out of date. Just write your own.

## talks
chat-hint = Just ask. { "/new" } starts a new conversation, { "/quit" } or Ctrl-D ends.
chat-remark = Here I only answer questions; links and days stand below each answer. I can shorten an answer or take another post in the chat on Telegram.
talk-new = New conversation. I have forgotten the earlier questions.
talk-on = From now on I remember earlier questions here.
talk-off = I do not remember earlier questions here. To change that: { "/new on" }
talk-unknown = /new starts a new conversation. /new off and /new on set whether I remember earlier questions here.
talk-not-yours = Only admins can change whether I remember earlier questions here.

## Traces, for admins

why-trace = How I made it: { $recipe },
why-dropped = The model also wrote this, and I left it out:
why-dropped-reason = { $reason ->
    [uncited] it names no post
    [long] too long
    [number] a number or date that the post does not say with it
    [name] a name that the post does not say with it
    [link] an address that is not in the post
    [denied] the post denies it or leaves it open
    [other] the post says it of something else
    [apart] the post says it in different sentences
    [changed] the post has changed meanwhile
   *[words] the post does not say it
}
why-trace-unknown = I do not have an answer with this number. Send /why alone for the last one.

## Follow-ups

answer-understood = You mean: { $question }
answer-missing = I found nothing about: { $parts }.
answer-missing-rest = I found no answer to the other part of your question.

## What people did not get (admins)

unanswered-title = Questions I could not answer:
unanswered-none = No question is without an answer.
unanswered-count = { $count ->
    [one] { $count } question had no answer.
   *[other] { $count } questions had no answer.
}
unanswered-topics = About: { $topics }.
unanswered-words = The words of a question appear once two people have asked it.
unanswered-group = { $count ->
    [one] “{ $question }” — { $count } person
   *[other] “{ $question }” — { $count } people
}
unanswered-more = { $count ->
    [one] { $count } more question had no answer.
   *[other] { $count } more questions had no answer.
}
button-pin = 📌 Pin an answer
button-pin-number = 📌 { $number }
button-pin-answer = { $action ->
    [nearest] Pin this post
    [off] Unpin
   *[other] Cancel
}
pin-which = To pin another post as the answer, reply to this message with its link.
pin-done = Pinned. Readers of { $title } who ask this now get the beginning of the post.
pin-off = Unpinned. I search for the answer again.
pin-kept = Nothing was changed.
pin-gone = This question is no longer here. Open the list again: /unanswered
pin-unknown = I cannot pin that. Reply to my message with the link of one post that I have.
synonyms-title = { $count ->
    [0] No words that mean the same yet.
    [one] { $count } pair of words that mean the same:
   *[other] { $count } pairs of words that mean the same:
}
synonyms-how = To add one: { $example }. To remove it, put a minus in front. For one channel only, put @channel first.
synonyms-example = pool = Pike
synonyms-added = Noted: { $pair }. I search for both from now on.
synonyms-known = I already know this pair, or my list is full: { $pair }
synonyms-removed = Removed: { $pair }
synonyms-unknown = I do not have this pair: { $pair }
plan-how = Send /plan and a question: I show its queries, filters and what they find.

## Named sets of channels

sets-title = { $count ->
    [0] No sets of channels yet.
    [one] { $count } set of channels:
   *[other] { $count } sets of channels:
}
sets-how = To make one: { $example }. To remove it, put a minus in front. To ask only its channels: { $asked }
sets-example = work = @first_channel, Second channel
sets-asked = in work: what is new?
sets-asked-in = in { $name }: what is new?
sets-saved = Saved: { $name } is { $titles }. Ask like this: { $asked }
sets-removed = Removed: { $name }
sets-unknown = I have no set with this name: { $name }. See /sets
sets-no-channel = I read no channel with this name for you: { $name }. See /start
sets-full = There are { $count } sets already. Remove one first: /sets
sets-closed = no channel that you can ask now
sets-nothing-readable = You can ask none of the channels of this set now. See /sets
forget-sets = your named sets of channels
forget-choices = your time zone, or the form of your messages
forget-modes = how I answer you (/mode)

## Watches: being told of new posts

watch-how = Tell me what to look out for: { $example }. I write when a new post has these words. { $quiet } keeps me silent at night, /watches shows the list.
watch-quiet-example = quiet 22-8
watch-example = ferry ticket under 500
watch-added = I will write when a new post is about: { $text }. Your list: /watches
watch-full = { $count ->
    [one] I look out for { $count } thing already. Stop it first: /watches
   *[other] I look out for { $count } things already. Stop one first: /watches
}
watch-notice = 🔔 { $text }
watch-also = { $count ->
    [one] Also in { $count } other channel
   *[other] Also in { $count } other channels
}
watch-over = { $count ->
    [one] { $text }: { $count } more post yesterday. See /watches
   *[other] { $text }: { $count } more posts yesterday. See /watches
}
watch-quiet = I send nothing in these hours: { $hours }
watch-quiet-none = First tell me what to look out for, such as { $example }. Then set the quiet hours again.
watch-quiet-off = I write at any hour now.
watch-mute = Mute for a day
watch-stop = Stop
watch-pause = Pause
watch-resume = Resume
watch-is-paused = {" "}(paused)
watch-is-muted = {" "}(muted)
watch-stopped = Stopped.
watch-muted = Silent for a day.
watch-paused = Paused.
watch-resumed = I am looking out again.
watch-gone = I stopped looking out for this already.
watches-none = Nothing to look out for yet. Try { $example }
watches-title = { $count ->
    [one] I look out for { $count } thing:
   *[other] I look out for { $count } things:
}

## Answers whose posts changed

answer-stale = ✏️ Changed since: { $posts }. I took out what is no longer there.
verdict-stale = ✏️ Changed since: { $posts }. The verdict may no longer hold: please check the text again with /verify.
stale-post = { $gone ->
    [yes] { $number } was deleted
   *[no] { $number } was edited
}

## In any chat (inline)

inline-how = Type a question, or open our chat
inline-private = Nothing in public channels. Ask me in our chat
inline-more = Ask me in our chat for a whole answer
inline-limit = Too many at once. Please try again in a few minutes
guest-nothing = Nothing in public channels.
inline-trouble = I cannot search right now. Please try again later

## A channel's own page

about-how = Write the channel after the command, for example: /about @channel. /start lists those I read for you.
about-unknown = I read no such channel for you. /start lists those I read.
about-several = Several channels have this in their titles. Write more of the title, or its @name:
about-empty = It has no posts yet.
about-posts = { $count ->
    [one] { $count } post, of { $first }
   *[other] { $count } posts since { $first }, the last on { $last }
}
about-often = About { $count } a week
about-seldom = Less than one a week
about-names = Often named:
about-subjects = Frequent words:
about-read = { $count ->
    [one] Counted over the last { $count } post.
   *[other] Counted over the last { $count } posts.
}

## Digests

digest-how = { $state } Try { $daily }, { $now } or { $off }. One channel alone: { $channel }.
digest-example = { $what ->
    [daily] /digest daily 9
    [now] /digest now
    [channel] /digest now @channel
   *[off] /digest off
}
digest-none = No digest is planned.
digest-off = No more digests.
digest-on = { $days ->
    [1] A digest comes every day, next on { $due }.
   *[7] A digest comes every week, next on { $due }.
}
digest-nothing = { $day ->
    [none] Nothing new.
   *[other] Nothing new since { $day }.
}
digest-title = New from { $since } to { $until }
digest-day = New on { $date }
digest-related = { $count ->
    [one] and { $count } more post about it
   *[other] and { $count } more posts about it
}

## Files of posts

media-title = Files of posts
media-none = No post has a file that I read: pictures, voices, documents.
media-off = I do not read the files of posts: MEDIA__FILES is off.
media-count = { $kind ->
    [picture] Pictures
    [voice] Voices
   *[document] Documents
}: { $read } read, { $waiting } waiting
media-missing = { $what ->
    [tesseract] To read them, install tesseract on my machine: apt install tesseract-ocr tesseract-ocr-rus tesseract-ocr-eng
    [speech] To hear them, get the speech model on my machine: citegram models pull whisper-base
   *[extra] To read them, run “make media” on my machine.
}
media-failed = { $count } not read: { $reason }
media-estimate = { $minutes ->
    [one] Reading the rest takes about a minute. I keep answering meanwhile.
   *[other] Reading the rest takes about { $minutes } minutes. I keep answering meanwhile.
}
media-paused = { $minutes ->
    [one] Paused; the rest takes about a minute.
   *[other] Paused; the rest takes about { $minutes } minutes.
}
media-pause = Pause
media-resume = Go on
media-retry = Try the unread ones again
media-problem = { $problem ->
    [gone] the file is gone.
    [unavailable] Telegram did not give me the file.
    [no_source] it came from the history, which is off now (HISTORY__API_ID).
    [too_large] it is too large.
    [protected] it is protected by a password.
    [unknown_type] it is of a kind that I do not read.
    [not_installed] what reads it is not installed.
    [too_long] the recording is longer than half an hour.
    [no_sound] it has no sound.
    [other_language] what is said is neither Russian nor English.
    [too_heavy] it needs too much time or memory.
   *[other] it is broken.
}
media-place = { $kind ->
    [picture] in the picture
    [voice] in the recording, at { $time }
    [page] on the linked page
   *[document] { $page ->
        [0] in the file
       *[other] in the file, page { $page }
    }
}
stats-media = { $waiting ->
    [one] { $waiting } file of a post waits to be read: /media
   *[other] { $waiting } files of posts wait to be read: /media
}
