#!/usr/bin/env bash
# Installs llama.cpp for the Python given, from a wheel that is compiled once and kept for every later clone:
# install_llama_cpp.sh PYTHON REQUIREMENT
set -euo pipefail
pip=("$1" -m pip --disable-pip-version-check)
wanted=$2
kept=${XDG_CACHE_HOME:-$HOME/.cache}/citegram/wheels
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
log=$(mktemp)
ticker=
trap 'rm -f "$log"; [ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true' EXIT

mkdir -p "$kept"
if "${pip[@]}" install -q --only-binary "${wanted%%=*}" --find-links "$kept" "$wanted" >"$log" 2>&1; then
  echo "llama.cpp is installed."
  exit
fi
echo "Compiling llama.cpp on $cores cores: about $((8 / cores + 1)) minutes, once. The result is kept in $kept."
# sleep holds no output: whoever reads it does not wait for the last one
(while sleep 15 >/dev/null 2>&1; do echo "... still compiling, $SECONDS s"; done) &
ticker=$!
if "${pip[@]}" wheel -q --no-deps --wheel-dir "$kept" "$wanted" >"$log" 2>&1; then
  "${pip[@]}" install -q --find-links "$kept" "$wanted"
  echo "llama.cpp is compiled and installed, in $SECONDS s."
  exit
fi
if command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null; then
  tail -n 20 "$log" >&2
  echo "llama.cpp could not be compiled, see the lines above: mend what they name and run make local again." >&2
else
  echo "llama.cpp needs a C++ compiler: install one (sudo apt-get install g++) and run make local again." >&2
fi
exit 1
