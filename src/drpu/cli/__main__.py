"""``python -m drpu.cli``, where the command itself is not on the path."""

from drpu.cli import main

raise SystemExit(main())
