#!/usr/bin/env bash
# Makes the test data again with the public libraries that it is measured against, and
# shows what changed: nothing should. Needs about 6 GB for torch. PYTHON names an
# interpreter that has the packages already.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r model/testdata/requirements.txt jinja2==3.1.6
  PYTHON=$PWD/.venv/bin/python
fi
gguf=$PWD/$(scripts/get-model.sh)
(
  cd model/testdata
  # make_split.py cuts up what make_gemma.py and make_bloom.py make
  for name in tiny kquants repacked ondemand mixtures bloom gemma today wide split rope toy; do
    "$PYTHON" "make_$name.py"
  done
  "$PYTHON" make_smollm2.py "$gguf"
)
(cd model/lora/testdata && "$PYTHON" make_adapters.py && "$PYTHON" make_gradients.py)
(cd model/tokenizer && "$PYTHON" testdata/make.py "$gguf" && "$PYTHON" jinja/testdata/make.py)
(cd internal/swarmtest/testdata && "$PYTHON" make_toy_searches.py && "$PYTHON" make_toy_ropes.py)
(cd client/sample/testdata && "$PYTHON" make_processors.py && "$PYTHON" make_beams.py)
(cd tensor/quant/testdata && "$PYTHON" goldens.py goldens.txt && "$PYTHON" repack.py >repack.txt && "$PYTHON" bnb.py matrices.txt)
git --no-pager diff --stat -- '*testdata*'
