from tfcsr.cli import main
from tfcsr.processes import leaving

with leaving():
    main()
