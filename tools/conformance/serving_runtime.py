"""`python tools/conformance/serving_runtime.py CHECKOUT`: check the manual's ServingRuntime by KServe's schema.

CHECKOUT is a clone of github.com/kserve/kserve. Fields that the schema lacks are errors, as with
`kubectl apply --validate=strict`. Needs `pip install jsonschema pyyaml`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

PAGE = Path(__file__).parents[2] / "docs" / "server" / "operating.md"
SCHEMA = "config/crd/full/serving.kserve.io_servingruntimes.yaml"


def runtime() -> dict[str, Any]:
    """Return the manifest of the manual."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (one for one in map(yaml.safe_load, blocks) if one.get("kind") == "ServingRuntime")
    return found


def strict(schema: Any) -> Any:
    """Return a schema that takes no fields beyond those that it lists."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        open_ = schema.get("x-kubernetes-preserve-unknown-fields")
        made.setdefault("additionalProperties", bool(open_))
    return made


def main(checkout: Path) -> int:
    definition = yaml.safe_load((checkout / SCHEMA).read_text(encoding="utf-8"))
    manifest = runtime()
    version = manifest["apiVersion"].rpartition("/")[2]
    (schema,) = (
        one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == version
    )
    errors = list(jsonschema.Draft202012Validator(strict(schema)).iter_errors(manifest))
    for error in errors:
        print(f"{error.json_path}: {error.message[:200]}")
    print(f"ServingRuntime {manifest['metadata']['name']} ({version}): {len(errors)} errors")
    return len(errors) > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
