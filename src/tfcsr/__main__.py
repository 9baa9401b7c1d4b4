from tfcsr.cli import main

main()
