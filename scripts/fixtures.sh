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
(cd model/testdata && "$PYTHON" make_tiny.py && "$PYTHON" make_kquants.py && "$PYTHON" make_toy.py && "$PYTHON" make_smollm2.py "$gguf")
(cd model/lora/testdata && "$PYTHON" make_adapters.py)
(cd model/tokenizer && "$PYTHON" testdata/make.py "$gguf")
(cd internal/swarmtest/testdata && "$PYTHON" make_toy_searches.py && "$PYTHON" make_toy_ropes.py)
(cd client/sample/testdata && "$PYTHON" make_processors.py && "$PYTHON" make_beams.py)
(cd tensor/quant/testdata && "$PYTHON" goldens.py goldens.txt)
git --no-pager diff --stat -- '*testdata*'
