#!/usr/bin/env bash
# pip install of a lock file into .venv, with a line of progress every five seconds: install_packages.sh PYTHON LOCK
set -u
python=$1 lock=$2 log=.venv/install.log start=.venv/install.start
total=$(grep -c '^[a-z0-9].*==' "$lock")
touch "$start"
"$python" -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r "$lock" >"$log" 2>&1 &
pip=$!
trap 'kill $pip 2>/dev/null; exit 130' INT TERM  # else it goes on in the background
for ((seconds = 1; ; seconds++)); do
  sleep 1
  kill -0 $pip 2>/dev/null || break
  ((seconds % 5)) && continue
  if grep -q '^Installing collected' "$log"; then
    echo "  installed $(find .venv/lib -maxdepth 4 -name '*.dist-info' -newer "$start" | wc -l) of $total packages"
  else
    echo "  fetched $(grep -cE '^(Collecting|Requirement already satisfied:) [^ ]+==' "$log") of $total packages"
  fi
done
wait $pip || { tail -n 20 "$log"; exit 1; }
