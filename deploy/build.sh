#!/bin/sh
# The steps of the image that are not Docker's. The Dockerfile calls it, and so does tests/deploy/test_image.py.
#
#   deploy/build.sh libraries TARGET   an environment at TARGET with what requirements-image.lock lists
#   deploy/build.sh program TARGET     Citegram itself, into that environment
#
# To be called in the folder with the lock files; PYTHON says which Python. Everything from outside is checked
# against its hash; llama-cpp-python, and pyaes, which is pure Python, have no wheels and are built here, with tools
# that do not get into TARGET.
set -eu

step=${1:?libraries or program}
target=${2:?where the environment goes}
work=$(dirname "$target")/.citegram-build
pip="$work/tools/bin/pip --disable-pip-version-check --no-input"
export PATH="$work/tools/bin:$PATH"
# For any x86-64 processor of the last ten years, not only for the one that builds.
export CMAKE_ARGS="${CMAKE_ARGS:--DGGML_NATIVE=OFF}"

case $step in
libraries)
  "${PYTHON:-python3}" -m venv "$work/tools"
  $pip install --quiet --require-hashes --only-binary :all: -r requirements-build.lock
  $pip wheel --quiet --wheel-dir "$work/wheels" --no-build-isolation --require-hashes --no-deps \
    --only-binary :all: --no-binary llama-cpp-python,pyaes -r requirements-image.lock
  "${PYTHON:-python3}" -m venv --without-pip "$target"
  $pip --python "$target/bin/python" install --quiet --no-index --no-deps "$work"/wheels/*.whl
  # 80 MB that nothing imports: tests, and llama.cpp a second time, with headers, for programs in C++.
  for packages in "$target"/lib/python3.*/site-packages; do
    rm -rf "$packages/lib" "$packages/include" "$packages/onnx/backend/test"
    find "$packages" -depth -type d -name tests -exec rm -rf {} +
  done
  ;;
program)
  $pip wheel --quiet --wheel-dir "$work/own" --no-build-isolation --no-index --no-deps .
  $pip --python "$target/bin/python" install --quiet --no-index --no-deps "$work"/own/*.whl
  "$target/bin/citegram" --version
  rm -rf "$work"
  ;;
*)
  echo "deploy/build.sh: the step is libraries or program, not $step" >&2
  exit 2
  ;;
esac
