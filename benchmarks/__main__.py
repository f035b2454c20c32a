"""`python -m regard.benchmarks`."""

import sys

from regard.benchmarks.training_speed import main

sys.exit(main())
